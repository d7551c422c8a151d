"""A heap whose items can be moved and taken out."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Any)  #: anything with an order
T = TypeVar("T", bound=Hashable)


class LazyHeap(Generic[K, T]):
    """Items by key, smallest first, equal keys in the order in which they were put.

    Moving or removing an item leaves its old entry behind, which is dropped when it surfaces, when
    the dead outnumber the living, or when none is left alive. The live entry of an item is known by
    identity, so an item that moves from A to B and back to A is still there once. All operations
    take O(log n), amortised.
    """

    __slots__ = ("_count", "_entries", "_live")

    def __init__(self) -> None:
        self._count = 0
        self._entries: list[tuple[K, int, T]] = []
        self._live: dict[T, tuple[K, int, T]] = {}

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[T]:
        """Items in no particular order."""
        return iter(self._live)

    def __contains__(self, item: T) -> bool:
        return item in self._live

    def put(self, item: T, key: K) -> None:
        """Add an item, or move it to another key."""
        self._count += 1
        entry = (key, self._count, item)
        self._live[item] = entry
        heapq.heappush(self._entries, entry)
        if len(self._entries) > 2 * len(self._live) + 64:
            self._compact()

    def discard(self, item: T) -> None:
        """Take an item out, if it is there."""
        self._live.pop(item, None)
        if not self._live:
            self._entries.clear()  # an idle engine keeps nothing of whom it served
        elif len(self._entries) > 2 * len(self._live) + 64:
            self._compact()

    def key(self, item: T) -> K:
        """Raises ``KeyError`` when the item is not there."""
        return self._live[item][0]

    def first(self) -> tuple[K, T] | None:
        """The smallest key and its item, None when empty."""
        entries = self._entries
        while entries:
            entry = entries[0]
            if self._live.get(entry[2]) is entry:
                return entry[0], entry[2]
            heapq.heappop(entries)
        return None

    def above(self, bound: K) -> K | None:
        """The smallest key above ``bound``; linear when smaller ones are there too."""
        first = self.first()
        if first is None or first[0] > bound:
            return first[0] if first is not None else None
        return min((key for key, _, _ in self._live.values() if key > bound), default=None)

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` unless each item has its entry in a heap that is one."""
        entries = self._entries
        if any(entries[i] < entries[(i - 1) // 2] for i in range(1, len(entries))):
            raise RuntimeError("a lazy heap is out of order")
        if not {id(entry) for entry in self._live.values()} <= {id(entry) for entry in entries}:
            raise RuntimeError("a lazy heap has lost an item")

    def _compact(self) -> None:
        self._entries = list(self._live.values())
        heapq.heapify(self._entries)
