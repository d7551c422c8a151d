"""Running requests in policy order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterator

from engine.core.queue import Place
from engine.core.request import Request


def _place(entry: tuple[Place, Request]) -> Place:
    return entry[0]


class RunningSet:
    """Sorted by place: decodes are planned from the front, victims taken from the back."""

    def __init__(self) -> None:
        self._entries: list[tuple[Place, Request]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Request]:
        """In order, over a copy: requests may leave meanwhile."""
        return iter([request for _, request in self._entries])

    def add(self, request: Request, place: Place) -> None:
        insort(self._entries, (place, request), key=_place)

    def remove(self, request: Request, place: Place) -> None:
        """Raises ``KeyError`` when it does not run at that place."""
        index = bisect_left(self._entries, place, key=_place)
        if index == len(self._entries) or self._entries[index][1] is not request:
            raise KeyError(request.id)
        del self._entries[index]

    def last_outside(self, planned: Container[str]) -> Request:
        """The last request whose id is not in ``planned``. ``StopIteration`` if there is none."""
        return next(r for _, r in reversed(self._entries) if r.id not in planned)

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` unless places ascend."""
        places = [place for place, _ in self._entries]
        if places != sorted(set(places)):
            raise RuntimeError("running requests are out of order")
