"""Waiting requests in policy order, with removal of any one of them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from engine.core.policies.base import Key
from engine.core.request import Request

#: Where a request stands for its whole life: the policy's key, then order of arrival. The number
#: makes places unique, so equal keys are first come, first served and never ping-pong.
Place = tuple[Key, int]


class WaitingQueue:
    """A heap by place. Removal marks the entry; marked entries leave when they surface.

    ``push``, ``pop`` and ``remove`` take O(log n), amortised.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Place, Request]] = []
        self._live: dict[str, Request] = {}

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Request]:
        """Waiting requests in no particular order."""
        return iter(self._live.values())

    def __contains__(self, request: Request) -> bool:
        return self._live.get(request.id) is request

    def push(self, request: Request, place: Place) -> None:
        """Raises ``ValueError`` when a request of that id waits already."""
        if request.id in self._live:
            raise ValueError(f"request {request.id!r} waits already")
        self._live[request.id] = request
        heapq.heappush(self._heap, (place, request))

    def peek(self) -> Request | None:
        """The first request, or None when nobody waits."""
        while self._heap:
            request = self._heap[0][1]
            if request in self:
                return request
            heapq.heappop(self._heap)
        return None

    def pop(self) -> Request:
        """Take the first request. Raises ``IndexError`` when nobody waits."""
        request = self.peek()
        if request is None:
            raise IndexError("pop from an empty queue")
        heapq.heappop(self._heap)
        del self._live[request.id]
        return request

    def remove(self, request: Request) -> None:
        """Take out a request that need not be first. Raises ``KeyError`` when it does not wait."""
        if request not in self:
            raise KeyError(request.id)
        del self._live[request.id]
        # A request comes back only after it ran, hence after its entry was popped: one entry each.
        if len(self._heap) > 64 and len(self._heap) > 2 * len(self._live):
            self._heap = [entry for entry in self._heap if entry[1] in self]
            heapq.heapify(self._heap)

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` unless each waiting request has exactly one heap entry."""
        entries = [request.id for _, request in self._heap if request in self]
        if sorted(entries) != sorted(self._live):
            raise RuntimeError("heap and index of the waiting queue disagree")
