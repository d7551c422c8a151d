"""Two orders of the same rows: whose tau-b is higher, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ranker.metrics import resampling
from ranker.metrics.order import checked, point
from ranker.metrics.pairs import Bools, Floats, Matrix, Pairs


@dataclass(frozen=True, slots=True)
class Difference:
    """tau-b of ``a`` minus that of ``b``, with its interval and two-sided bootstrap p-value (the
    smallest is ``2 / (resamples + 1)``). NaN when the lengths have no order."""

    a: float
    b: float
    value: float
    low: float
    high: float
    p: float


def paired(
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    tokens: ArrayLike,
    censored: ArrayLike | None = None,
    *,
    clusters: ArrayLike | None = None,
    seed: int = 0,
    resamples: int = 1000,
    confidence: float = 0.95,
    most_rows: int = 2000,
) -> Difference:
    """Whether ``scores_a`` order ``tokens`` better than ``scores_b``; vectors of one length.

    Each resample judges both on the same rows, so that what makes rows hard for both cancels
    (paired percentile bootstrap, Efron 1979). ``clusters``, ``most_rows`` and pairs that cannot be
    decided are as in :func:`ranker.metrics.order`. Equal scores throughout are no order: tau 0.
    Raises ``ValueError`` when shapes differ, a number is not finite or an option is out of range.
    """
    resampling.check(resamples, confidence, most_rows)
    a, y, c = checked(scores_a, tokens, censored)
    b, _, _ = checked(scores_b, tokens, censored)
    number = resampling.cluster_numbers(clusters, len(y))
    tau_a, tau_b = (_tau(scores, y, c) for scores in (a, b))
    value = tau_a - tau_b
    if not resamples or math.isnan(value):
        return Difference(tau_a, tau_b, value, math.nan, math.nan, math.nan)
    rng = np.random.default_rng(seed)
    part = resampling.part(number, most_rows, rng)
    weights = part.weights(number, resamples, rng)
    lengths = Pairs.of(y[part.rows], c[part.rows])
    gaps = _taus(a[part.rows], lengths, weights) - _taus(b[part.rows], lengths, weights)
    gaps = gaps[np.isfinite(gaps)]
    if not part.whole and len(gaps):
        gaps = value + (gaps - np.median(gaps)) / part.too_wide
    low, high = resampling.interval(gaps, confidence)
    beside = min(np.count_nonzero(gaps <= 0.0), np.count_nonzero(gaps >= 0.0))
    p = min(1.0, 2.0 * (int(beside) + 1) / (len(gaps) + 1))
    return Difference(tau_a, tau_b, value, low, high, p)


def _tau(scores: Floats, tokens: Floats, censored: Bools) -> float:
    tau, accuracy, _ = point(scores, tokens, censored)
    return 0.0 if math.isnan(tau) and not math.isnan(accuracy) else tau


def _taus(scores: Floats, lengths: Pairs, weights: Matrix) -> Floats:
    taus = Pairs.of_scores(scores).taus(lengths, weights)
    return np.zeros_like(taus) if scores.min() == scores.max() else taus
