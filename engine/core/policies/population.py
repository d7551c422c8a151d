"""The forecasts that arrive together with a request, as far as they are remembered."""

from __future__ import annotations

from collections import deque

from engine.core.policies.experience import threshold
from engine.core.request import Request


class Population:
    """The last ``memory`` arrivals with a forecast and their labels, in seconds of expected work.

    Sorted anew after every 1/16 of them has been replaced: amortised O(log n) an arrival.
    """

    def __init__(self, memory: int) -> None:
        self._arrivals: deque[tuple[float, Request]] = deque(maxlen=memory)
        self._sorted: list[tuple[float, Request]] = []
        self._thresholds: dict[float, float] = {}
        self._new = 0

    def add(self, label: float, request: Request) -> None:
        self._arrivals.append((label, request))
        self._new += 1
        if self._new * 16 >= len(self._sorted):
            self._sorted = sorted(self._arrivals, key=lambda entry: entry[0])
            self._thresholds = {}
            self._new = 0

    def clear(self) -> None:
        self._arrivals.clear()
        self._sorted, self._thresholds, self._new = [], {}, 0

    @property
    def longest(self) -> Request | None:
        """The middle of the longest fortieth, which stands for the longest class; None if empty.

        Not the very longest: one odd forecast shall not decide what everyone is compared with.
        """
        if not self._sorted:
            return None
        return self._sorted[int(len(self._sorted) * (1.0 - 1.0 / 80.0))][1]

    def threshold(self, share: float) -> float:
        """The label below which requests would hold ``share`` of the work if forecasts were true.

        Stands in for :meth:`Experience.threshold` until enough requests have ended.
        """
        if share not in self._thresholds:
            pairs = [(label, label) for label, _ in self._sorted]
            self._thresholds[share] = threshold(pairs, share)
        return self._thresholds[share]
