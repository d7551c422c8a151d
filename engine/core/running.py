"""Requests that hold memory: of each lane in policy order, lanes by precedence."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from engine.core.request import Request
from engine.core.room import Place


def _place(entry: tuple[Place, Request]) -> Place:
    return entry[0]


class RunningSet:
    """Requests of one lane by place: victims are taken from the back."""

    def __init__(self) -> None:
        self._entries: list[tuple[Place, Request]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Request]:
        """In order, over a copy: requests may leave meanwhile."""
        return iter([entry[1] for entry in self._entries])

    def backwards(self, after: Place | None = None) -> Iterator[tuple[Place, Request]]:
        """From the last to the one right behind ``after``, over a copy."""
        for entry in self._entries[::-1]:
            if after is not None and entry[0] <= after:
                return
            yield entry

    def add(self, request: Request, place: Place) -> None:
        insort(self._entries, (place, request), key=_place)

    def remove(self, request: Request, place: Place) -> None:
        """Raises ``KeyError`` when it is not at that place."""
        index = bisect_left(self._entries, place, key=_place)
        if index == len(self._entries) or self._entries[index][1] is not request:
            raise KeyError(request.id)
        del self._entries[index]

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` unless places ascend."""
        places = [place for place, _ in self._entries]
        if places != sorted(set(places)):
            raise RuntimeError("running or paused requests are out of order")


class Running:
    """Requests that run, or are paused. ``lanes``: names, in order of precedence."""

    def __init__(self, lanes: Sequence[str]) -> None:
        self.by_lane = {name: RunningSet() for name in lanes}
        self._sets = tuple(self.by_lane.values())
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Request]:
        """Lane by lane, each in policy order, over a copy."""
        if len(self._sets) == 1:
            return iter(self._sets[0])
        return iter([request for each in self._sets for request in each])

    def add(self, lane: str, request: Request, place: Place) -> None:
        self.by_lane[lane].add(request, place)
        self._count += 1

    def remove(self, lane: str, request: Request, place: Place) -> None:
        self.by_lane[lane].remove(request, place)
        self._count -= 1

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` on disorder within a lane or a wrong count."""
        for each in self._sets:
            each.check_integrity()
        if sum(map(len, self._sets)) != self._count:
            raise RuntimeError("running or paused requests are miscounted")
