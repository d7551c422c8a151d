"""The order of prompt lengths: what engines that call themselves shortest-job-first do today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ranker.baseline import PromptLengthRanker
from training.recipes.recipe import Floats, Scorer, Setup
from training.sources import Example


@dataclass(frozen=True, slots=True)
class PromptLength:
    """A longer prompt gets a longer answer."""

    name: str = "prompt-length"
    source: str = "vLLM pull request 29366 and others: SJF by the length of the prompt"
    differs: str = "characters instead of tokens"

    def fit(self, train: Sequence[Example], validation: Sequence[Example], setup: Setup) -> Scorer:
        """Nothing to learn."""

        def scores(prompts: Sequence[str], models: Sequence[str]) -> Floats:
            return np.asarray(PromptLengthRanker.scores(prompts), dtype=np.float64)

        return scores
