"""The ranker to beat: a longer prompt gets a longer answer. Mostly false on chat, true on code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ranker.calibration import Calibration
from ranker.forecasts import forecasts
from ranker.prediction import Prediction
from ranker.types import Forecast


@dataclass(frozen=True)
class PromptLengthRanker:
    """Scores a prompt by ``log(1 + characters)``; calibrated like any other ranker."""

    calibration: Calibration
    served_model: str
    name: str = "prompt-length"
    version: str = "1"

    @staticmethod
    def scores(prompts: Sequence[str]) -> list[float]:
        """One score per prompt, higher = longer prompt."""
        return [math.log1p(len(prompt)) for prompt in prompts]

    def forecast(self, prompts: Sequence[str], served_model: str = "") -> list[Forecast]:
        """One forecast per prompt, in order; the same for every served model."""
        if not prompts:
            return []
        scores = np.array(self.scores(prompts))
        quantiles = self.calibration.quantiles(Prediction(scores))
        return forecasts(scores, quantiles, self.calibration.levels, self.name, self.version)
