"""Quantiles by score, fitted to recent outcomes: what a ranker's own would be, were they true."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drift.cohorts import coverage
from ranker import calibration
from ranker.calibration import Calibration, CalibrationConfig
from ranker.prediction import Prediction
from ranker.types import Forecast, Outcome

Floats = NDArray[np.float64]

#: Half-widths of the kernel to choose from. Few knots and folds: a fit takes some 40 ms.
_WIDTHS = (0.15, 0.25, 0.45, math.inf)
_KNOTS, _FOLDS = 15, 4

#: Split of which the t statistic of lengths says that they changed there, and the least rows on
#: either side of one.
_CHANGED, _SIDE = 4.5, 25


@dataclass(frozen=True, slots=True)
class Refit:
    """Fitted to ``rows`` outcomes. ``flat``: it says the same of every score, because nothing else
    is borne out by them."""

    calibration: Calibration
    rows: int

    @property
    def flat(self) -> bool:
        return math.isinf(self.calibration.bandwidth)

    def quantiles(self, forecasts: Sequence[Forecast]) -> Floats:
        """[n, levels], output tokens, not descending along the levels."""
        if self.flat:  # interpolating between equal rows would round them apart
            return np.repeat(self.calibration.table[:1], len(forecasts), axis=0)
        scores = np.array([forecast.score for forecast in forecasts], dtype=np.float64)
        return self.calibration.quantiles(Prediction(scores))


def refit(outcomes: Sequence[Outcome], least: int, order: bool) -> Refit | None:
    """Of the scored ones among ``outcomes``, oldest first, that carry the levels of the newest;
    ``None`` below ``least`` of them. ``order``: that higher scores mean longer answers is given;
    else every score gets the same quantiles when the outcomes do not bear it out.

    The score table of ``ranker.calibration``: censored lengths are lower bounds.
    """
    rows = [o for o in outcomes if o.forecast is not None]
    forecasts = [o.forecast for o in rows if o.forecast is not None]
    if not rows:
        return None
    levels = forecasts[-1].levels
    kept = [(f.score, o) for f, o in zip(forecasts, rows, strict=True) if f.levels == levels]
    if len(kept) < max(20, least):
        return None
    widths = tuple(w for w in _WIDTHS if not (order and math.isinf(w)))
    config = CalibrationConfig(knots=_KNOTS, bandwidths=widths, folds=_FOLDS, levels=levels)
    fitted = calibration.fit(
        [score for score, _ in kept],
        [o.output_tokens for _, o in kept],
        [o.finish_reason.censored for _, o in kept],
        config,
    )
    return Refit(fitted, len(kept))


def since_change(outcomes: Sequence[Outcome]) -> int:
    """How many of the newest scored outcomes came after lengths changed as a whole; all of them
    when they did not.

    The likeliest single change of the mean of log lengths, given what scores explain of them
    (binary segmentation, Scott & Knott 1974).
    """
    rows = [(o.forecast.score, o.output_tokens) for o in outcomes if o.forecast is not None]
    n = len(rows)
    if n < 2 * _SIDE:
        return n
    scores, tokens = np.array(rows, dtype=np.float64).T
    ranks = np.argsort(np.argsort(scores, kind="stable")).astype(np.float64) / n
    logs = np.log1p(tokens)
    design = np.column_stack([np.ones(n), ranks])
    left = logs - design @ np.linalg.lstsq(design, logs, rcond=None)[0]
    before = np.arange(_SIDE, n - _SIDE + 1)
    sums, squares = np.cumsum(left), np.cumsum(left * left)
    first, second = sums[before - 1] / before, (sums[-1] - sums[before - 1]) / (n - before)
    within = squares[-1] - before * first**2 - (n - before) * second**2
    spread = np.sqrt(np.maximum(within, 1e-12) / max(1, n - 2))
    found = np.abs(first - second) / (spread * np.sqrt(1.0 / before + 1.0 / (n - before)))
    best = int(np.argmax(found))
    return n if found[best] < _CHANGED else n - int(before[best])


def out_of_true(outcomes: Sequence[Outcome], beyond: float) -> bool:
    """Whether the coverage of the quantiles given out is off at p50 or p90, by more than ``beyond``
    and 2.5 standard errors of so few."""
    scored = [o for o in outcomes if o.forecast is not None]
    if not scored:
        return False
    for level in (0.5, 0.9):
        found = coverage(scored, level)
        error = math.sqrt(level * (1.0 - level) / len(scored))
        if not abs(found - level) <= beyond + 2.5 * error:  # NaN: all were cut off below it
            return True
    return False
