"""The bundled ranker: hashed n-grams and text features into gradient-boosted trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranker.features import extract
from ranker.ngrams import NgramConfig, NgramWeights, count
from ranker.prediction import Prediction
from ranker.window import Window

if TYPE_CHECKING:
    from lightgbm import Booster


@dataclass(frozen=True)
class LexicalModel:
    """Prompt -> score in two stages.

    A linear model over hashed n-grams says what the words promise; gradient-boosted trees (Ke et
    al. 2017) combine it with the features of the text. The score lies roughly in (0, 1): the share
    of answers in training that the answer to this prompt is expected to exceed.
    """

    kind: ClassVar[str] = "lexical"

    ngrams: NgramConfig
    weights: NgramWeights
    trees: Booster
    window: Window = field(default_factory=Window)

    def columns(self, prompts: Sequence[str]) -> NDArray[np.float64]:
        """What the trees read: text features and, last, the linear prediction."""
        linear = self.weights.predict(count(prompts, self.ngrams, self.window))
        return np.column_stack((extract(prompts, self.window), linear))

    def predict(self, prompts: Sequence[str], served_model: str = "") -> Prediction:
        """One score per prompt, the same for every served model."""
        if not prompts:
            return Prediction(np.empty(0))
        # One thread: LightGBM's pool of threads would fight the engine's on a small machine, and
        # for a handful of rows starting it costs more than the work.
        found = self.trees.predict(self.columns(prompts), num_threads=1)
        return Prediction(np.asarray(found, dtype=np.float64))
