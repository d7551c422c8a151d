"""The percentile bootstrap (Efron 1979) over rows, or over clusters of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Clusters that a part holds at least, where there are as many.
LEAST_CLUSTERS = 20


@dataclass(frozen=True, slots=True)
class Part:
    """Numbers of ``rows``, ascending, for how many each ``counts`` [part], and the factor by which
    an interval of them is ``too_wide``: by the square-root law. ``whole``: none was left out."""

    rows: Ints
    counts: NDArray[np.float32]
    too_wide: float
    whole: bool

    def weights(
        self, clusters: Ints, resamples: int, rng: np.random.Generator
    ) -> NDArray[np.float32]:
        """How often each row of the part is drawn, by the ``clusters`` of all, [resamples, part]:
        as often as it counts, once for every time that its cluster is."""
        drawn: NDArray[np.float32] = weights(clusters[self.rows], resamples, rng) * self.counts
        return drawn


def cluster_numbers(clusters: ArrayLike | None, rows: int) -> Ints:
    """Clusters from 0, [rows]; without any each row is one. Raises ``ValueError`` otherwise."""
    if clusters is None:
        return np.arange(rows)
    given = np.asarray(clusters)
    if given.shape != (rows,):
        raise ValueError(f"clusters must have shape {(rows,)}, got {given.shape}")
    _, numbers = np.unique(given, return_inverse=True)
    return numbers.astype(np.int64)


def part(clusters: Ints, most_rows: int, rng: np.random.Generator) -> Part:
    """All rows, or a random part of the clusters with at most ``most_rows`` rows between them.

    A cluster of more than ``most_rows / LEAST_CLUSTERS`` rows is thinned to so many of its own, by
    chance, so that no prompt that everybody asks fills the part by itself.
    """
    rows = len(clusters)
    if rows <= most_rows:
        return Part(np.arange(rows), np.ones(rows, np.float32), 1.0, True)
    sizes = np.bincount(clusters)
    most = max(1, most_rows // LEAST_CLUSTERS)
    thinned = np.minimum(sizes, most)
    shuffled = rng.permutation(len(sizes))
    taken = int(np.searchsorted(np.cumsum(thinned[shuffled]), most_rows, side="right"))
    chosen = np.zeros(len(sizes), np.bool_)
    chosen[shuffled[:taken]] = True
    kept = np.flatnonzero(chosen[clusters])
    if sizes[chosen].max() > most:
        kept = _thin(kept, clusters, most, rng)
    counts = (sizes / thinned)[clusters[kept]].astype(np.float32)
    return Part(kept, counts, math.sqrt(len(sizes) / taken), False)


def _thin(rows: Ints, clusters: Ints, most: int, rng: np.random.Generator) -> Ints:
    """At most ``most`` of each cluster's ``rows``, by chance, ascending."""
    mixed = rng.permutation(rows)
    mixed = mixed[np.argsort(clusters[mixed], kind="stable")]
    number = clusters[mixed]
    place = np.arange(len(mixed)) - np.searchsorted(number, number)  # within its cluster
    return np.sort(mixed[place < most])


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

    Values of a part of the rows move to ``centre``, the value of all, and shrink by the factor by
    which they spread ``too_wide``.
    """
    told = values[np.isfinite(values)]
    if not len(told):
        return math.nan, math.nan
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(told, (tail, 1.0 - tail))
    if not math.isnan(centre):
        middle = float(np.median(told))
        low, high = centre + (low - middle) / too_wide, centre + (high - middle) / too_wide
    return float(low), float(high)


def check(resamples: int, confidence: float, most_rows: int) -> None:
    """Raises ``ValueError`` for an option that is out of range."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie inside (0, 1), got {confidence}")
    if resamples < 0 or most_rows < 2:
        raise ValueError("resamples must be at least 0 and most_rows at least 2")
