"""How long requests would have waited, had they been served first come, first served."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from heapq import heapreplace


class Backlog:
    """Percentile of the virtual FCFS wait over a sliding window of arrivals, in seconds.

    The wait is that of a queue before ``slots`` equal servers (Kiefer & Wolfowitz 1955): each
    request holds one of them for ``slots`` times its work. Work is *measured*: a request counts
    once it has ended, because a backlog computed from forecasts explodes when they are biased.
    Requests end out of order, so the recursion is run again over the window, once per 1/32 of it:
    amortised O(log n) an entry.

    window: seconds of arrivals that count, back from the newest. entries: how many of them at most.
    """

    def __init__(
        self, window: float, slots: int = 1, percentile: float = 0.99, entries: int = 32_768
    ) -> None:
        if not window > 0.0:
            raise ValueError(f"window must be above 0 seconds, got {window}")
        if slots < 1:
            raise ValueError(f"slots must be at least 1, got {slots}")
        if not 0.0 < percentile < 1.0:
            raise ValueError(f"percentile must lie in (0, 1), got {percentile}")
        if entries < 1:
            raise ValueError(f"entries must be at least 1, got {entries}")
        self._window = window
        self._slots = slots
        self._percentile = percentile
        self._most = entries
        self._entries: list[tuple[float, float]] = []  # (arrival, work), ascending
        self._new = 0
        self._value = self._slack = 0.0

    @property
    def value(self) -> float:
        """Percentile of the wait, in seconds; 0 before the first request ended."""
        return self._value

    @property
    def slack(self) -> float:
        """Percentile of wait and service together less that of service, in seconds: how long even
        a request that takes long may wait without ending later than the latest under FCFS."""
        return self._slack

    def add(self, arrival: float, work: float) -> bool:
        """Count a request that ended, ``work`` in seconds of the whole engine; whether
        :attr:`value` was worked out anew."""
        insort(self._entries, (arrival, work))
        self._new += 1
        if self._new * 32 < len(self._entries):
            return False
        self._new = 0
        self._refresh()
        return True

    def _refresh(self) -> None:
        entries = self._entries
        oldest = (entries[-1][0] - self._window, -math.inf)
        del entries[: max(bisect_left(entries, oldest), len(entries) - self._most)]
        slots = self._slots
        free = [entries[0][0]] * slots  # a heap: when each slot is free
        waits: list[float] = []
        stays: list[float] = []
        for arrival, work in entries:
            start = free[0] if free[0] > arrival else arrival
            end = start + work * slots
            waits.append(start - arrival)
            stays.append(end - arrival)
            heapreplace(free, end)
        services = sorted(work for _, work in entries)
        waits.sort()
        stays.sort()
        rank = math.ceil(self._percentile * len(waits)) - 1
        self._value = waits[rank]
        self._slack = max(0.0, stays[rank] - services[rank] * slots)
