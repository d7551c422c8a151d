"""The newest arrivals of one series, lower bounds and late ones at their places."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from ranker.types import Outcome


class Window:
    """At most ``most`` outcomes by arrival. What comes late takes its place if it is that new, and
    what was a lower bound is replaced when it ends. A step costs O(log n), and O(n) late."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: list[tuple[float, int, Outcome]] = []
        self._bounds: dict[str, tuple[float, int]] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Outcome]:
        """Oldest first."""
        return (outcome for _, _, outcome in self._rows)

    def add(self, outcome: Outcome, bound: bool = False) -> None:
        """``bound``: it has not ended, :meth:`settle` may replace it."""
        self._count += 1
        place = (outcome.arrival, self._count)
        if bound:
            self._bounds[outcome.request_id] = place
        insort(self._rows, (*place, outcome), key=_place)
        if len(self._rows) > self._most:
            _, _, oldest = self._rows.pop(0)
            self._bounds.pop(oldest.request_id, None)

    def settle(self, outcome: Outcome) -> bool:
        """Put what became of it in place of its lower bound. False when that isn't here now."""
        place = self._bounds.pop(outcome.request_id, None)
        if place is None:
            return False
        i = bisect_left(self._rows, place, key=_place)
        self._rows[i] = (*place, outcome)
        return True


def _place(row: tuple[float, int, Outcome]) -> tuple[float, int]:
    return row[:2]
