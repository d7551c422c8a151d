"""Were those that were reported the ones that were ranked? Survivorship, by the forecasts' scores.

Whoever reports only what ended well, or soon, reports the short ones; every statistic of lengths
then looks fine. What was ranked is known before anything is reported, so scores of ranked requests
and of reported ones are counted by minute of arrival and compared: other traffic changes both, a
selection changes one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Seconds of one bucket, how many are kept, and into how many bins scores fall.
_BUCKET = 60.0
_BUCKETS = 120
_BINS = 20
#: One-sided two-sample Kolmogorov-Smirnov limit at 0.1 %: sqrt(-ln(.001) / 2).
_LIMIT = 1.858


@dataclass(frozen=True, slots=True)
class Survival:
    """Over the same minutes of arrival: requests ``ranked``, and those ``reported``.

    ``distance``: by how much the share of low scores is larger among the reported, at most;
    ``chance``: what it passes by luck in 0.1 % of cases.
    """

    ranked: int
    reported: int
    distance: float
    chance: float

    @property
    def missing(self) -> float:
        """Share of the ranked that nobody reported."""
        return max(0.0, 1.0 - self.reported / self.ranked) if self.ranked else math.nan

    @property
    def selective(self) -> bool:
        """Whether the missing ones are those that were forecast long."""
        return self.missing > 0.02 and self.distance > self.chance

    @property
    def words(self) -> str:
        """What is wrong, or nothing."""
        if self.selective:
            return (
                f"{self.missing:.0%} of the ranked requests were never reported, and they are those"
                " with the longest forecasts: what is measured is too good (survivorship)"
            )
        if self.missing > 0.2:
            return f"{self.missing:.0%} of the ranked requests were never reported"
        return ""


class Survivors:
    """One ranker version. ``patience``: seconds after which a request should have been reported;
    more where requests are seen to take longer."""

    def __init__(self, patience: float = 300.0) -> None:
        self._patience = patience
        self._longest = 0.0
        self._first: list[float] = []
        self._edges: list[float] | None = None
        self._ranked: OrderedDict[int, NDArray[np.int64]] = OrderedDict()
        self._reported: OrderedDict[int, NDArray[np.int64]] = OrderedDict()

    def rank(self, score: float, now: float) -> None:
        """A request got its forecast at Unix second ``now``."""
        if self._edges is None:
            self._first.append(score)
            if len(self._first) < 20 * _BINS:
                return
            levels = np.arange(1, _BINS) / _BINS
            self._edges = np.unique(np.quantile(self._first, levels)).tolist()
            self._first.clear()
            return
        self._count(self._ranked, score, now)

    def report(self, score: float, arrival: float, finished: float) -> None:
        """A request that arrived then has ended."""
        self._longest = max(self._longest * 0.9999, finished - arrival)
        if self._edges is not None:
            self._count(self._reported, score, arrival)

    def look(self, now: float) -> Survival | None:
        """Over the whole minutes that both know and whose requests had time to end.

        ``None`` with fewer than 200 ranked in them.
        """
        oldest = max(min(self._ranked, default=0), min(self._reported, default=0)) + 1
        last = int((now - max(self._patience, 1.5 * self._longest)) // _BUCKET)
        minutes = [minute for minute in self._ranked if oldest <= minute < last]
        ranked, reported = np.zeros(_BINS, np.int64), np.zeros(_BINS, np.int64)
        for minute in minutes:
            ranked += self._ranked[minute]
            reported += self._reported.get(minute, 0)
        n, m = int(ranked.sum()), int(reported.sum())
        if n < 200:
            return None
        distance, chance = 0.0, math.inf
        if m:
            distance = float((np.cumsum(reported) / m - np.cumsum(ranked) / n).max())
            chance = _LIMIT * math.sqrt(1.0 / n + 1.0 / m)
        return Survival(n, m, distance, chance)

    def _count(self, buckets: OrderedDict[int, NDArray[np.int64]], score: float, at: float) -> None:
        minute = int(at // _BUCKET)
        counts = buckets.get(minute)
        if counts is None:
            counts = buckets[minute] = np.zeros(_BINS, np.int64)
            if len(buckets) > _BUCKETS:
                del buckets[min(buckets)]
        counts[bisect_right(self._edges or [], score)] += 1
