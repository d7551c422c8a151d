"""Scores and a calibration, put together into forecasts."""

from __future__ import annotations

from collections.abc import Sequence

from ranker.calibration import Calibration
from ranker.types import Forecast


def forecasts(
    scores: Sequence[float], calibration: Calibration, name: str, version: str
) -> list[Forecast]:
    """One forecast per score, in order, by ranker ``name`` at ``version``."""
    if not len(scores):
        return []
    rows = calibration.quantiles(scores).tolist()
    return [
        Forecast(float(score), tuple(row), name, version, calibration.levels)
        for score, row in zip(scores, rows, strict=True)
    ]
