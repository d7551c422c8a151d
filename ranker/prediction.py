"""What a model says of prompts before calibration, and what every model can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of ``n`` prompts. ``scores`` [n], higher = longer. ``quantiles`` [n, levels], output tokens
    at :data:`ranker.types.LEVELS`, by models that have a distribution head. ``embeddings`` [n,
    width], by models that read meaning; novelty can be measured there, and forecasts carry a sketch
    of them.
    """

    scores: Floats
    quantiles: Floats | None = None
    embeddings: Floats | None = None

    def at(self, rows: NDArray[np.int64]) -> Prediction:
        """Of the prompts with numbers ``rows``, in their order, any of them as often as named."""
        taken = (None if part is None else part[rows] for part in (self.quantiles, self.embeddings))
        return Prediction(self.scores[rows], *taken)


class LengthModel(Protocol):
    """Prompts -> prediction. Pure: same prompts, same numbers, whatever else is in the batch."""

    #: Which reader of :mod:`ranker.artifact` loads it.
    kind: ClassVar[str]

    def predict(self, prompts: Sequence[str], served_model: str = "") -> Prediction:
        """``served_model`` chooses among those that were told apart in training; one that is not
        among them, or the empty text, gets what they have in common."""
        ...
