"""Completions back into arrival order, with a bounded hold.

Outcomes come when requests finish. Under a shortest-first policy that order groups similar
forecasts, which lowers concordance without any drift, so the monitor looks at arrival order. How
far completions are out of order is measured as they come, and no outcome waits longer than that
disorder asks for: a stream that comes in order isn't held at all.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right, insort
from collections import deque
from dataclasses import dataclass

from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class HoldConfig:
    """``most``: outcomes held at most. ``memory``: completions over which disorder is measured.

    ``keep``: share of completions that the hold should bring back into order. The last percent are
    the longest answers; waiting for them would double the hold and with it the delay of an alarm.
    """

    most: int = 1024
    memory: int = 2048
    keep: float = 0.99

    def __post_init__(self) -> None:
        if self.most < 0:
            raise ValueError(f"hold.most must be >= 0, got {self.most}")
        if self.memory < 1:
            raise ValueError(f"hold.memory must be >= 1, got {self.memory}")
        if not 0.0 < self.keep <= 1.0:
            raise ValueError(f"hold.keep must lie in (0, 1], got {self.keep}")


class ArrivalOrder:
    """A reorder buffer: push completions, get outcomes in ascending arrival.

    An outcome that arrives before one already released is late and dropped here (it stays in the
    store); ``late`` counts them.
    """

    def __init__(self, config: HoldConfig) -> None:
        self._config = config
        self._heap: list[tuple[float, int, Outcome]] = []
        self._count = 0
        self._released = float("-inf")
        self._recent: deque[tuple[float, int]] = deque()  # arrival, overtakers
        self._arrivals: list[float] = []  # the same, each sorted
        self._overtakers: list[int] = []
        self.late = 0

    @property
    def held(self) -> int:
        return len(self._heap)

    def push(self, outcome: Outcome) -> list[Outcome]:
        """Take one completion; return what is now known to be next in arrival order."""
        self._count += 1
        self._measure(outcome.arrival)
        if outcome.arrival < self._released:
            self.late += 1
        else:
            heapq.heappush(self._heap, (outcome.arrival, self._count, outcome))
        place = math.ceil(self._config.keep * len(self._overtakers)) - 1
        return self._release(min(self._config.most, self._overtakers[place]))

    def flush(self) -> list[Outcome]:
        """Everything held, in arrival order: at the end of a stream."""
        return self._release(0)

    def _release(self, hold: int) -> list[Outcome]:
        out: list[Outcome] = []
        while len(self._heap) > hold:
            self._released, _, outcome = heapq.heappop(self._heap)
            out.append(outcome)
        return out

    def _measure(self, arrival: float) -> None:
        """How many recent completions arrived later than this one: those that overtook it."""
        overtakers = len(self._arrivals) - bisect_right(self._arrivals, arrival)
        self._recent.append((arrival, overtakers))
        insort(self._arrivals, arrival)
        insort(self._overtakers, overtakers)
        if len(self._recent) > self._config.memory:
            oldest, overtook = self._recent.popleft()
            del self._arrivals[bisect_right(self._arrivals, oldest) - 1]
            del self._overtakers[bisect_right(self._overtakers, overtook) - 1]
