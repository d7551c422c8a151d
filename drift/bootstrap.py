"""Intervals of means and their ratios for values that depend on their neighbours in time."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def block_ratios(
    numerator: Floats, denominator: Floats, draws: int, rng: np.random.Generator
) -> Floats:
    """``draws`` resampled values of sum(numerator) / sum(denominator), both of shape [n].

    The circular block bootstrap of Politis & Romano (1992), pairs kept together, in blocks of
    n^(1/3), the rate of Kuensch (Annals of Statistics 17, 1989). O(n + draws n^(2/3)).
    """
    n = len(numerator)
    length = max(1, round(n ** (1.0 / 3.0)))
    starts = rng.integers(0, n, size=(draws, -(-n // length)))
    tops = _block_sums(numerator, length)[starts].sum(axis=1)
    bottoms = _block_sums(denominator, length)[starts].sum(axis=1)
    return np.asarray(tops / bottoms)


def limits(draws: Floats, confidence: float) -> tuple[float, float]:
    """The percentile interval; NaN when a draw is not finite."""
    if not len(draws) or not np.all(np.isfinite(draws)):
        return math.nan, math.nan
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(draws, (tail, 1.0 - tail))
    return float(low), float(high)


def _block_sums(values: Floats, length: int) -> Floats:
    """Sum of the ``length`` values from each place on, around the end."""
    sums = np.concatenate(([0.0], np.cumsum(np.concatenate((values, values[: length - 1])))))
    return np.asarray(sums[length:] - sums[:-length])
