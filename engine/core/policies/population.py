"""What was known of the requests that arrived lately."""

from __future__ import annotations

from collections import deque

from engine.core.policies.experience import threshold
from engine.core.policies.label import Known


class Population:
    """The last ``memory`` arrivals with a forecast.

    Sorted anew after every 1/16 of them has been replaced: amortised O(log n) an arrival.
    """

    def __init__(self, memory: int) -> None:
        self._arrivals: deque[Known] = deque(maxlen=memory)
        self._sorted: list[Known] = []
        self._thresholds: dict[float, float] = {}
        self._new = 0

    def add(self, known: Known) -> None:
        self._arrivals.append(known)
        self._new += 1
        if self._new * 16 >= len(self._sorted):
            self._sorted = sorted(self._arrivals, key=lambda entry: entry.label)
            self._thresholds = {}
            self._new = 0

    def clear(self) -> None:
        self._arrivals.clear()
        self._sorted, self._thresholds, self._new = [], {}, 0

    @property
    def longest(self) -> Known | None:
        """The middle of the longest fortieth, which stands for the longest class; None if empty.

        Not the very longest: one odd forecast shall not decide what everyone is compared with.
        """
        if not self._sorted:
            return None
        return self._sorted[int(len(self._sorted) * (1.0 - 1.0 / 80.0))]

    @property
    def middle(self) -> float:
        """The median label, 0 if empty: what to make of a request without forecast."""
        return self._sorted[len(self._sorted) // 2].label if self._sorted else 0.0

    def towards_middle(self, label: float, trust: float) -> float:
        """``label`` as it counts with ``trust``: itself at 1, at 0 the median label, in between
        their weighted geometric mean."""
        middle = self.middle
        if trust == 1.0 or label <= 0.0 or middle <= 0.0:
            return label
        return float(label**trust * middle ** (1.0 - trust))

    def threshold(self, share: float) -> float:
        """The label up to which requests would hold ``share`` of the work if forecasts were true.

        Stands in for :meth:`Experience.threshold` until enough requests have ended.
        """
        found = self._thresholds.get(share)
        if found is None:
            pairs = [(known.label, known.work) for known in self._sorted]
            found = self._thresholds[share] = threshold(pairs, share)
        return found
