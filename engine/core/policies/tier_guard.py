"""Keeps the express tier from swelling when answers become shorter than they used to be."""

from __future__ import annotations

import math
from collections import deque

from engine.core.policies.experience import threshold


class TierGuard:
    """The newest ``recent`` pairs of (label, realised work), and whether the tier holds too much.

    The label up to which requests are express comes from a long memory, which makes it steady. When
    lengths fall as a whole and forecasts follow, labels fall too, and for thousands of outcomes far
    more than the tier's share would lie below the old one. Once those below it held more than
    ``most`` times the share among the newest, at least ``least`` of them, the newest decide.
    """

    def __init__(
        self, recent: int = 512, least: int = 128, most: float = 1.5, every: int = 32
    ) -> None:
        self._pairs: deque[tuple[float, float]] = deque(maxlen=recent)
        self._least = least
        self._most = most
        self._every = every
        self._new = 0
        self._limits: dict[float, float] = {}

    def add(self, label: float, work: float) -> None:
        self._pairs.append((label, work))
        self._new += 1
        if self._new >= self._every:
            self._new, self._limits = 0, {}

    def clear(self) -> None:
        self._pairs.clear()
        self._new, self._limits = 0, {}

    def limit(self, share: float, until: float) -> float:
        """The highest label of a tier of that ``share`` of work; ``until`` is what the long memory
        says it is. Worked out anew every few outcomes."""
        found = self._limits.get(share)
        if found is None:
            found = self._limits[share] = self._limit(share, until)
        return min(found, until)

    def _limit(self, share: float, until: float) -> float:
        if len(self._pairs) < self._least:
            return math.inf
        total = sum(work for _, work in self._pairs)
        held = sum(work for label, work in self._pairs if label <= until)
        if held <= self._most * share * total:
            return math.inf
        return threshold(sorted(self._pairs), share)
