"""The percentile bootstrap (Efron 1979) over rows, or over clusters of rows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def cluster_numbers(clusters: ArrayLike | None, rows: int) -> Ints:
    """Clusters from 0, [rows]; without any each row is one. Raises ``ValueError`` otherwise."""
    if clusters is None:
        return np.arange(rows)
    given = np.asarray(clusters)
    if given.shape != (rows,):
        raise ValueError(f"clusters must have shape {(rows,)}, got {given.shape}")
    _, numbers = np.unique(given, return_inverse=True)
    return numbers.astype(np.int64)


def part(clusters: Ints, most_rows: int, rng: np.random.Generator) -> tuple[Ints, float]:
    """Rows of a random part of the clusters, at most ``most_rows`` of them in whole clusters, and
    the factor by which an interval of that part is too wide: by the square-root law."""
    rows = len(clusters)
    if rows <= most_rows:
        return np.arange(rows), 1.0
    sizes = np.bincount(clusters)
    shuffled = rng.permutation(len(sizes))
    taken = max(1, int(np.searchsorted(np.cumsum(sizes[shuffled]), most_rows, side="right")))
    chosen = np.zeros(len(sizes), np.bool_)
    chosen[shuffled[:taken]] = True
    return np.flatnonzero(chosen[clusters]), math.sqrt(len(sizes) / taken)


def weights(clusters: Ints, resamples: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """How often each row is drawn, [resamples, rows]; the rows of a cluster are drawn together."""
    _, number = np.unique(clusters, return_inverse=True)
    n = int(number.max()) + 1
    drawn = rng.multinomial(n, np.full(n, 1.0 / n), size=resamples).astype(np.float32)
    found: NDArray[np.float32] = drawn[:, number]
    return found


def interval(
    values: Floats, confidence: float, centre: float = math.nan, too_wide: float = 1.0
) -> tuple[float, float]:
    """Ends of the percentile interval of ``values``, NaN ones left out; NaN without any.

    An interval that is ``too_wide`` by a factor shrinks by it, around ``centre``.
    """
    told = values[np.isfinite(values)]
    if not len(told):
        return math.nan, math.nan
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(told, (tail, 1.0 - tail))
    if too_wide > 1.0:
        middle = float(np.median(told))
        low, high = centre + (low - middle) / too_wide, centre + (high - middle) / too_wide
    return float(low), float(high)


def check(resamples: int, confidence: float, most_rows: int) -> None:
    """Raises ``ValueError`` for an option that is out of range."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie inside (0, 1), got {confidence}")
    if resamples < 0 or most_rows < 2:
        raise ValueError("resamples must be at least 0 and most_rows at least 2")
