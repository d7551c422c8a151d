"""Counts by size, for what happens too often to keep: no list, no library."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from engine.readings import Distribution


class Histogram:
    """``bounds`` ascend; a value equal to one counts below it, as Prometheus has it."""

    def __init__(self, bounds: Sequence[float]) -> None:
        if not bounds or list(bounds) != sorted(set(bounds)):
            raise ValueError(f"bounds must ascend and hold at least one, got {list(bounds)}")
        self._bounds = tuple(map(float, bounds))
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def reading(self, name: str) -> Distribution:
        """As it is now, under a Prometheus name."""
        return Distribution(name, self._bounds, tuple(self._counts), self._total)
