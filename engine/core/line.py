"""The waiting requests of one lane: a queue per tenant, and who may be next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, TypeVar

from engine.core.budgets import Buckets
from engine.core.fairness import FairnessConfig, VirtualCounters
from engine.core.lanes import Lane
from engine.core.lazyheap import LazyHeap
from engine.core.policies.base import Key
from engine.core.request import Request

__all__ = ["Line", "Place"]

#: Where a request stands: the policy's key, then order of arrival. The number makes places unique,
#: so equal keys are first come, first served and never ping-pong.
Place = tuple[Key, int]

#: Seconds of the caller's clock after which a request is overdue, then order of arrival.
Due = tuple[float, int]

#: A queue within a line: tenant, and whether its requests are paid for. Those that were preempted
#: are: a stream that has begun must not stall for the debt that its own admission made.
Name = tuple[str, bool]

K = TypeVar("K", bound=Any)


class _Queue:
    """One tenant's waiting requests by place, and by due time when the lane bounds waiting."""

    __slots__ = ("dues", "places")

    def __init__(self) -> None:
        self.places: LazyHeap[Place, Request] = LazyHeap()
        self.dues: LazyHeap[Due, Request] = LazyHeap()


class Line:
    """Within a lane the overdue go first, then the tenant served least, then the first place.

    Queues whose tenant owes tokens to its budget are parked until that time when they surface.
    Parking is bookkeeping only: what :meth:`head` says depends on ``now``, not on earlier calls.
    """

    def __init__(
        self, lane: Lane, fairness: FairnessConfig | None = None, buckets: Buckets | None = None
    ) -> None:
        self.lane = lane
        self.running = 0  #: requests admitted from here that run now
        self.counters: VirtualCounters | None = None
        if fairness is not None and fairness.counters:
            self.counters = VirtualCounters(fairness.weight)
        self._buckets = buckets
        self._by_tenant = self.counters is not None or buckets is not None
        self._max_wait = lane.config.max_wait
        # Nothing but the policy's order: one heap, as cheap as that.
        self._plain = not self._by_tenant and self._max_wait is None
        self._queues: dict[Name, _Queue] = {("", False): _Queue()} if self._plain else {}
        self._only = self._queues[("", False)].places if self._plain else None
        self._by_rank: LazyHeap[tuple[float, Place], Name] = LazyHeap()
        self._by_due: LazyHeap[Due, Name] = LazyHeap()
        self._parked: LazyHeap[float, Name] = LazyHeap()
        starvation = lane.policy.starvation
        self._step_bound = None if starvation is None else starvation.steps
        self._second_bound = None if starvation is None else starvation.seconds
        self._timers: LazyHeap[float, Request] = LazyHeap()
        self._departures: deque[float] = deque(maxlen=64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Request]:
        """Waiting requests in no particular order."""
        for queue in self._queues.values():
            yield from queue.places

    # -- requests come and go --------------------------------------------------------------------

    def push(
        self, request: Request, place: Place, *, since: float, now: float, step: int, paid: bool
    ) -> None:
        """``since``: seconds at which this wait began. ``paid``: it was charged already."""
        self._count += 1
        if self._step_bound is not None:
            self._timers.put(request, step + self._step_bound)
        elif self._second_bound is not None:
            self._timers.put(request, since + self._second_bound)
        if self._only is not None:
            self._only.put(request, place)
            return
        name = self._name(request.tenant, paid)
        if self.counters is not None and not self._waits(name[0]):
            front = self._front(self._by_rank, now)
            self.counters.lift(name[0], None if front is None else front[0][0])
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
        self._timers.discard(request)
        self._count -= 1
        if self._only is None:
            queue.dues.discard(request)
            self._rank(name)

    def rekey(self, request: Request, place: Place) -> None:
        """Raises ``KeyError`` when it does not wait here."""
        name = self._name_of(request)
        self._queues[name].places.put(request, place)
        if self._only is None:
            self._rank(name)

    def admitted(self, request: Request, now: float) -> None:
        """Like :meth:`remove`; it runs now, which counts for :meth:`retry_after`."""
        self.remove(request)
        self.running += 1
        self._departures.append(now)

    # -- who is next -----------------------------------------------------------------------------

    def head(self, now: float) -> Request | None:
        """The request to serve next; None when nobody waits who has budget."""
        if self._only is not None:
            first = self._only.first()
            return None if first is None else first[1]
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

    def starved(self, now: float, step: int) -> list[Request]:
        """Who has waited for the policy's starvation; each is told once."""
        bound = step if self._step_bound is not None else now
        found: list[Request] = []
        while (first := self._timers.first()) is not None and first[0] <= bound:
            self._timers.discard(first[1])
            found.append(first[1])
        return found

    def next_event(self, now: float) -> float | None:
        """Seconds above ``now`` at which time alone may change ``head`` or ``starved``."""
        times: list[float] = []
        if self._second_bound is not None:
            starves = self._timers.above(now)
            if starves is not None:
                times.append(starves)
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

    def steps_to_starvation(self, step: int) -> int | None:
        first = None if self._step_bound is None else self._timers.first()
        return None if first is None else max(0, int(first[0]) - step)

    def retry_after(self, now: float) -> float | None:
        """Seconds in which a tenth of the line will have left at the rate of the last departures.

        Not the time until one place is free: then all who were refused would come back for it.
        """
        if len(self._departures) < 2 or now <= self._departures[0]:
            return None
        seconds = (now - self._departures[0]) / len(self._departures)
        return seconds * max(1.0, self._count / 10)

    # -- tenants ---------------------------------------------------------------------------------

    def charge(self, tenant: str, service: float) -> None:
        """Count service of a tenant, in weighted tokens; negative gives back."""
        if self.counters is not None:
            self.counters.charge(tenant, service)
            for name in ((tenant, False), (tenant, True)):
                if name in self._queues:
                    self._rank(name)

    def budget_changed(self, tenant: str) -> None:
        """The tenant's bucket was charged or refunded."""
        if self._buckets is not None and (tenant, False) in self._parked:
            self._parked.put((tenant, False), self._buckets.ready_at(tenant))

    def forget_idle(self, busy: set[str], now: float) -> None:
        """Drop counters that would be lifted anyway; ``busy``: tenants with requests running."""
        if self.counters is None or not self.counters.crowded:
            return
        front = self._front(self._by_rank, now)
        least = self.counters.floor if front is None else front[0][0]
        self.counters.forget(least, {tenant for tenant, _ in self._queues} | busy)

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` when queues, ranks and counts contradict each other."""
        for heap in (self._by_rank, self._by_due, self._parked, self._timers):
            heap.check_integrity()
        for name, queue in self._queues.items():
            queue.places.check_integrity()
            queue.dues.check_integrity()
            if not self._plain and (name in self._by_rank) == (name in self._parked):
                raise RuntimeError(f"queue of tenant {name[0]!r} is lost or parked and ranked")
        if sum(len(queue.places) for queue in self._queues.values()) != self._count:
            raise RuntimeError(f"lane {self.lane.name!r} has lost count of its requests")

    def _name(self, tenant: str, paid: bool) -> Name:
        return (tenant if self._by_tenant else "", paid and self._buckets is not None)

    def _name_of(self, request: Request) -> Name:
        for paid in (False, True):
            name = self._name(request.tenant, paid)
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
            for heap in (self._by_rank, self._by_due, self._parked):
                heap.discard(name)
            if self.counters is not None and not self._waits(name[0]):
                self.counters.left(name[0])
            return
        if name in self._parked:
            return
        counter = 0.0 if self.counters is None else self.counters.value(name[0])
        _move(self._by_rank, name, (counter, first[0]))
        due = queue.dues.first()
        if due is not None:
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
