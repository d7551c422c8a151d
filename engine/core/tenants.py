"""The waiting requests of one lane, tenant by tenant: who is overdue, who was served least."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from engine.core.budgets import Buckets
from engine.core.fairness import VirtualCounters
from engine.core.lazyheap import LazyHeap
from engine.core.policies.base import Key
from engine.core.request import Request

#: Where a request stands: the policy's key, then order of arrival. The number makes places unique,
#: so equal keys are first come, first served and never ping-pong.
Place = tuple[Key, int]

#: Seconds of the caller's clock from which a request is overdue, then order of arrival.
Due = tuple[float, int]

#: A queue: tenant, and whether its requests are paid for. Those that were preempted are: a stream
#: that has begun must not stall for the debt that its own admission made.
Name = tuple[str, bool]

K = TypeVar("K", bound=Any)


class _Queue:
    """One tenant's waiting requests by place, and by due time when the lane bounds waiting."""

    __slots__ = ("dues", "places")

    def __init__(self) -> None:
        self.places: LazyHeap[Place, Request] = LazyHeap()
        self.dues: LazyHeap[Due, Request] = LazyHeap()


class Tenants:
    """Order: the overdue, then the tenant of the smallest counter, then the first place.

    Queues whose tenant owes tokens to its budget are parked until that time when they surface.
    Parking is bookkeeping only: what :meth:`head` says depends on ``now``, not on earlier calls.
    """

    def __init__(
        self, max_wait: float | None, counters: VirtualCounters | None, buckets: Buckets | None
    ) -> None:
        """``max_wait``: seconds; ``counters``, ``buckets``: None when they do not count."""
        self._max_wait = max_wait
        self._counters = counters
        self._buckets = buckets
        self._apart = counters is not None or buckets is not None
        self._queues: dict[Name, _Queue] = {}
        self._by_rank: LazyHeap[tuple[float, Place], Name] = LazyHeap()
        self._by_due: LazyHeap[Due, Name] = LazyHeap()
        self._parked: LazyHeap[float, Name] = LazyHeap()

    def __iter__(self) -> Iterator[Request]:
        """Waiting requests in no particular order."""
        for queue in self._queues.values():
            yield from queue.places

    # -- requests come and go --------------------------------------------------------------------

    def push(self, request: Request, place: Place, since: float, now: float, paid: bool) -> None:
        """``since``: seconds at which this wait began. ``paid``: it was charged already."""
        name = self._name(request.tenant, paid)
        if self._counters is not None and not self._waits(name[0]):
            front = self._front(self._by_rank, now)
            self._counters.lift(name[0], None if front is None else front[0][0])
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _Queue()
        queue.places.put(request, place)
        if self._max_wait is not None:
            queue.dues.put(request, (since + self._max_wait, place[1]))
        self._rank(name)

    def remove(self, request: Request) -> None:
        """Raises ``KeyError`` when it does not wait here."""
        name = self._name_of(request)
        queue = self._queues[name]
        queue.places.discard(request)
        if self._max_wait is not None:
            queue.dues.discard(request)
        self._rank(name)

    def rekey(self, request: Request, place: Place) -> None:
        """Raises ``KeyError`` when it does not wait here."""
        name = self._name_of(request)
        self._queues[name].places.put(request, place)
        self._rank(name)

    # -- who is next -----------------------------------------------------------------------------

    def head(self, now: float) -> Request | None:
        """The request to serve next; None when nobody waits who has budget."""
        overdue = self.overdue(now)
        if overdue is not None:
            return overdue[1]
        front = self._front(self._by_rank, now)
        if front is None:
            return None
        found = self._queues[front[1]].places.first()
        return None if found is None else found[1]

    def overdue(self, now: float) -> tuple[Due, Request] | None:
        """Who is overdue for longest, of those with budget."""
        if self._max_wait is None:
            return None
        front = self._front(self._by_due, now)
        if front is None or front[0][0] > now:
            return None
        return self._queues[front[1]].dues.first()

    def has_overdue(self, request: Request, now: float) -> bool:
        """Raises ``KeyError`` when it does not wait here."""
        if self._max_wait is None:
            return False
        return self._queues[self._name_of(request)].dues.key(request)[0] <= now

    def next_event(self, now: float) -> float | None:
        """Seconds above ``now`` before which time alone does not change :meth:`head`."""
        times: list[float] = []
        if self._max_wait is not None:
            front = self._front(self._by_due, now)
            if front is not None and front[0][0] > now:
                times.append(front[0][0])
        if self._buckets is not None:
            self._front(self._by_rank, now)
            parked = self._parked.first()
            if parked is not None:
                times.append(parked[0])
        return min(times, default=None)

    # -- accounts --------------------------------------------------------------------------------

    def charge(self, tenant: str, service: float) -> None:
        """Count service of a tenant, in weighted tokens; negative gives back."""
        if self._counters is not None:
            self._counters.charge(tenant, service)
            for name in ((tenant, False), (tenant, True)):
                if name in self._queues:
                    self._rank(name)

    def budget_changed(self, tenant: str) -> None:
        """The tenant's bucket was charged or refunded."""
        name = (tenant, False)
        if self._buckets is not None and name in self._parked:
            self._parked.put(name, self._buckets.ready_at(tenant))

    def forget_idle(self, busy: set[str], now: float) -> None:
        """Drop counters that would be lifted anyway; ``busy``: tenants with requests running."""
        if self._counters is not None:
            front = self._front(self._by_rank, now)
            least = self._counters.floor if front is None else front[0][0]
            self._counters.forget(least, busy | {tenant for tenant, _ in self._queues})

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` when queues and ranks contradict each other."""
        for heap in (self._by_rank, self._by_due, self._parked):
            heap.check_integrity()
        for name, queue in self._queues.items():
            queue.places.check_integrity()
            queue.dues.check_integrity()
            if self._max_wait is not None and set(queue.places) != set(queue.dues):
                raise RuntimeError(f"requests of tenant {name[0]!r} have no due time")
            if (name in self._by_rank) == (name in self._parked):
                raise RuntimeError(f"queue of tenant {name[0]!r} is lost, or parked and ranked")
        if len(self._by_rank) + len(self._parked) != len(self._queues):
            raise RuntimeError("a tenant without a queue is ranked")

    # -- inside ----------------------------------------------------------------------------------

    def _name(self, tenant: str, paid: bool) -> Name:
        return (tenant if self._apart else "", paid and self._buckets is not None)

    def _name_of(self, request: Request) -> Name:
        tenant = request.tenant if self._apart else ""
        for name in ((tenant, False), (tenant, True)):
            queue = self._queues.get(name)
            if queue is not None and request in queue.places:
                return name
        raise KeyError(request.id)

    def _waits(self, tenant: str) -> bool:
        return (tenant, False) in self._queues or (tenant, True) in self._queues

    def _rank(self, name: Name) -> None:
        """Put a queue where it belongs after anything about it changed."""
        queue = self._queues[name]
        first = queue.places.first()
        if first is None:
            del self._queues[name]
            self._by_rank.discard(name)
            self._by_due.discard(name)
            self._parked.discard(name)
            if self._counters is not None and not self._waits(name[0]):
                self._counters.left(name[0])
        elif name not in self._parked:
            counter = 0.0 if self._counters is None else self._counters.value(name[0])
            _move(self._by_rank, name, (counter, first[0]))
            if self._max_wait is not None and (due := queue.dues.first()) is not None:
                _move(self._by_due, name, due[0])

    def _front(self, heap: LazyHeap[K, Name], now: float) -> tuple[K, Name] | None:
        """The first queue by rank or due time whose tenant has budget."""
        while (parked := self._parked.first()) is not None and parked[0] <= now:
            self._parked.discard(parked[1])
            self._rank(parked[1])
        while (first := heap.first()) is not None:
            tenant, paid = first[1]
            if self._buckets is None or paid or self._buckets.ready_at(tenant) <= now:
                return first
            self._by_rank.discard(first[1])
            self._by_due.discard(first[1])
            self._parked.put(first[1], self._buckets.ready_at(tenant))
        return None


def _move(heap: LazyHeap[K, Name], name: Name, key: K) -> None:
    """Put unless it is there already: most changes are behind the front of a queue."""
    if name not in heap or heap.key(name) != key:
        heap.put(name, key)
