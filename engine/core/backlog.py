"""How much work lay before the engine, had it been first come, first served."""

from __future__ import annotations

import math
from bisect import insort


class Backlog:
    """Percentile of the virtual FCFS backlog over a sliding window of arrivals.

    Each arrival finds ``max(0, backlog before − time since)`` seconds of work and adds its own
    (Lindley 1952). Work is *measured*: an arrival counts once its request has ended, because a
    backlog computed from forecasts explodes when they are biased. Requests end out of order, so
    the recursion is run again over the window, once per 1/32 of it: amortised O(log n) an entry.

    window: seconds of arrivals that count, back from the newest.
    """

    def __init__(self, window: float, percentile: float = 0.99) -> None:
        if not window > 0.0:
            raise ValueError(f"window must be above 0 seconds, got {window}")
        if not 0.0 < percentile < 1.0:
            raise ValueError(f"percentile must lie in (0, 1), got {percentile}")
        self._window = window
        self._percentile = percentile
        self._entries: list[tuple[float, float]] = []  # (arrival, work), ascending
        self._new = 0
        self._value = 0.0

    @property
    def value(self) -> float:
        """Seconds of work; 0 before the first request ended."""
        return self._value

    def add(self, arrival: float, work: float) -> bool:
        """Count a request that ended; whether :attr:`value` was worked out anew."""
        insort(self._entries, (arrival, work))
        self._new += 1
        if self._new * 32 < len(self._entries):
            return False
        self._new = 0
        self._refresh()
        return True

    def _refresh(self) -> None:
        oldest = self._entries[-1][0] - self._window
        keep = next(i for i, (arrival, _) in enumerate(self._entries) if arrival >= oldest)
        del self._entries[:keep]
        found: list[float] = []
        backlog, last = 0.0, self._entries[0][0]
        for arrival, work in self._entries:
            backlog = max(0.0, backlog - (arrival - last)) + work
            found.append(backlog)
            last = arrival
        found.sort()
        self._value = found[math.ceil(self._percentile * len(found)) - 1]
