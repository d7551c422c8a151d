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

from drift.opened import Open, OpenRequests
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class HoldConfig:
    """``most``: outcomes held at most. ``memory``: completions over which disorder is measured.

    ``keep``: share of completions that the hold should bring back into order. The last percent are
    the longest answers; waiting for them would double the hold and with it the delay of an alarm.
    ``open``: requests under way that are known at once, and ids that ended that are remembered.
    """

    most: int = 1024
    memory: int = 2048
    keep: float = 0.99
    open: int = 16_384

    def __post_init__(self) -> None:
        if self.most < 0:
            raise ValueError(f"hold.most must be >= 0, got {self.most}")
        for name in ("memory", "open"):
            if getattr(self, name) < 1:
                raise ValueError(f"hold.{name} must be >= 1, got {getattr(self, name)}")
        if not 0.0 < self.keep <= 1.0:
            raise ValueError(f"hold.keep must lie in (0, 1], got {self.keep}")


class ArrivalOrder:
    """A reorder buffer: push completions, get outcomes in ascending arrival.

    An open request that is passed by later arrivals comes out at its place as a lower bound
    (``bounds`` counts them); when it ends it is not given out again (``settled``). An outcome that
    arrives before one already released, and was not known to be open, is ``late``: it has missed
    its place and isn't given out either.
    """

    def __init__(self, config: HoldConfig) -> None:
        self._config = config
        self._heap: list[tuple[float, int, Outcome]] = []
        self._count = 0
        self._released = float("-inf")
        self._recent: deque[tuple[float, int]] = deque()  # arrival, overtakers
        self._arrivals: list[float] = []  # the same, each sorted
        self._overtakers: list[int] = []
        self._open = OpenRequests(config.open)
        self.late = 0
        self.bounds = 0
        self.settled = 0

    @property
    def held(self) -> int:
        return len(self._heap)

    @property
    def open(self) -> int:
        """Requests known to be under way."""
        return len(self._open)

    def missed(self, outcome: Outcome) -> bool:
        """Whether the place of ``outcome`` is gone: :meth:`push` will not give it out."""
        return outcome.arrival < self._released

    def bounded(self, request_id: str) -> bool:
        """Whether it was given out as a lower bound and has not ended since."""
        return self._open.bounded(request_id)

    def note(self, request: Open) -> None:
        """A request is under way. One whose place is gone can't be entered any more."""
        if request.arrival >= self._released:
            self._open.note(request)

    def push(self, outcome: Outcome) -> list[Outcome]:
        """Take one completion; return what is now known to be next in arrival order."""
        self._count += 1
        self._measure(outcome.arrival)
        if self._open.end(outcome.request_id):
            self.settled += 1
        elif self.missed(outcome):
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
            arrival, _, outcome = heapq.heappop(self._heap)
            for request in self._open.passed(arrival):
                self.bounds += 1
                out.append(request.bound())
            self._released = arrival
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
