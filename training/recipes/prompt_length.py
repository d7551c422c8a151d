"""The order of prompt lengths: what engines that call themselves shortest-job-first do today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ranker.baseline import PromptLengthRanker
from training.recipes.benchmark import Benchmark
from training.recipes.compare import Floats
from training.recipes.recipe import Scorer, Setup


@dataclass(frozen=True, slots=True)
class PromptLength:
    """A longer prompt gets a longer answer."""

    name: str = "prompt-length"
    source: str = "vLLM pull request 29366 and others: SJF by the length of the prompt"
    differs: str = "characters instead of tokens"

    def fit(self, benchmark: Benchmark, setup: Setup) -> Scorer:
        """Nothing to learn."""

        def scores(prompts: Sequence[str], models: Sequence[str]) -> Floats:
            return np.asarray(PromptLengthRanker.scores(prompts), dtype=np.float64)

        return scores

    def settings(self, benchmark: Benchmark, setup: Setup) -> dict[str, object]:
        return {}
