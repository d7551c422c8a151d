"""Who makes the most traffic, counted in bounded memory.

Space-Saving: A. Metwally, D. Agrawal & A. El Abbadi, "Efficient computation of frequent and top-k
elements in data streams", ICDT 2005. With m counters every item above 1/m of the stream is among
them, and no count is too high by more than its recorded error.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


@dataclass(slots=True)
class _Counter:
    count: float
    error: float


class SpaceSaving(Generic[Item]):
    """``counters``: items counted at once. Every ``half_life`` items all counts are halved, so that
    who was heavy long ago makes room (0: never). An item costs O(1), or O(counters) when it is one
    that is not counted yet.
    """

    def __init__(self, counters: int, half_life: int = 0) -> None:
        if counters < 1:
            raise ValueError(f"counters must be >= 1, got {counters}")
        if half_life < 0:
            raise ValueError(f"half_life must be >= 0, got {half_life}")
        self._most = counters
        self._half_life = half_life
        self._counters: dict[Item, _Counter] = {}
        self._seen = 0
        self.total = 0.0  #: items, halved as the counts are

    def __len__(self) -> int:
        return len(self._counters)

    def __contains__(self, item: Item) -> bool:
        return item in self._counters

    def add(self, item: Item) -> None:
        """Count one more of ``item``."""
        self._seen += 1
        self.total += 1.0
        if self._half_life and self._seen % self._half_life == 0:
            self.total /= 2.0
            for counter in self._counters.values():
                counter.count /= 2.0
                counter.error /= 2.0
        counter = self._counters.get(item)  # type: ignore[assignment]
        if counter is not None:
            counter.count += 1.0
        elif len(self._counters) < self._most:
            self._counters[item] = _Counter(1.0, 0.0)
        else:
            least = min(self._counters, key=lambda known: self._counters[known].count)
            count = self._counters.pop(least).count
            self._counters[item] = _Counter(count + 1.0, count)

    def sure(self, item: Item) -> float:
        """How many of ``item`` there were at least; 0 for one that is not counted."""
        counter = self._counters.get(item)
        return counter.count - counter.error if counter is not None else 0.0

    def share(self, item: Item) -> float:
        """Of all items, the share that ``item`` makes at least."""
        return self.sure(item) / self.total if self.total else 0.0
