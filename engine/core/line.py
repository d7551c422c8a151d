"""The waiting requests of one lane, and how long they have waited."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from engine.core.budgets import Buckets
from engine.core.fairness import FairnessConfig, VirtualCounters
from engine.core.lanes import Lane
from engine.core.lazyheap import LazyHeap
from engine.core.request import Request
from engine.core.tenants import Due, Place, Tenants


class Line:
    """One lane. Without tenants or ``max_wait`` it is one heap by place, and as cheap."""

    def __init__(
        self, lane: Lane, fairness: FairnessConfig | None = None, buckets: Buckets | None = None
    ) -> None:
        """``fairness``: None keeps tenants together. ``buckets``: None, or those of all lanes."""
        self.lane = lane
        self.running = 0  #: requests of this lane that run now; kept by Charges
        self.counters: VirtualCounters | None = None
        if fairness is not None and fairness.counters:
            self.counters = VirtualCounters(fairness.weight, fairness.credit)
        self._places: LazyHeap[Place, Request] = LazyHeap()
        self._tenants: Tenants | None = None
        max_wait = lane.config.max_wait
        if self.counters is not None or buckets is not None or max_wait is not None:
            self._tenants = Tenants(max_wait, self.counters, buckets)
        starvation = lane.policy.starvation
        self._in_steps = starvation is not None and starvation.steps is not None
        self._timers: LazyHeap[float, Request] = LazyHeap()
        self._departures: deque[float] = deque(maxlen=64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Request]:
        """Waiting requests in no particular order."""
        return iter(self._places if self._tenants is None else self._tenants)

    # -- requests come and go --------------------------------------------------------------------

    def push(
        self, request: Request, place: Place, *, since: float, now: float, step: int, paid: bool
    ) -> None:
        """``since``: seconds at which this wait began. ``paid``: it was charged already."""
        self._count += 1
        # Asked each time: a policy may learn how long is too long. What it says now stands for
        # this wait, and does not change its unit.
        starvation = self.lane.policy.patience(request)
        if starvation is not None and starvation.steps is not None:
            self._timers.put(request, step + starvation.steps)
        elif starvation is not None and starvation.seconds is not None:
            self._timers.put(request, since + starvation.seconds)
        if self._tenants is None:
            self._places.put(request, place)
        else:
            self._tenants.push(request, place, since, now, paid)

    def remove(self, request: Request) -> None:
        """Raises ``KeyError`` when it does not wait here."""
        if self._tenants is not None:
            self._tenants.remove(request)
        else:
            self._places.key(request)
            self._places.discard(request)
        self._timers.discard(request)
        self._count -= 1

    def rekey(self, request: Request, place: Place) -> None:
        """Raises ``KeyError`` when it does not wait here."""
        if self._tenants is not None:
            self._tenants.rekey(request, place)
        else:
            self._places.key(request)
            self._places.put(request, place)

    def admitted(self, request: Request, now: float) -> None:
        """Like :meth:`remove`, and counts for :meth:`retry_after`."""
        self.remove(request)
        self._departures.append(now)

    # -- who is next -----------------------------------------------------------------------------

    def head(self, now: float) -> Request | None:
        """The request to serve next; None when nobody waits who has budget."""
        if self._tenants is not None:
            return self._tenants.head(now)
        first = self._places.first()
        return None if first is None else first[1]

    def overdue(self, now: float) -> tuple[Due, Request] | None:
        """Who is overdue for longest, of those with budget."""
        return None if self._tenants is None else self._tenants.overdue(now)

    def starved(self, now: float, step: int) -> list[Request]:
        """Who has waited for the policy's starvation; each is told once."""
        bound = step if self._in_steps else now
        found: list[Request] = []
        while (first := self._timers.first()) is not None and first[0] <= bound:
            self._timers.discard(first[1])
            found.append(first[1])
        return found

    def next_event(self, now: float) -> float | None:
        """Seconds above ``now`` before which time alone changes neither head nor starved."""
        event = None if self._tenants is None else self._tenants.next_event(now)
        starves = None if self._in_steps else self._timers.above(now)
        return min((time for time in (event, starves) if time is not None), default=None)

    def has_overdue(self, request: Request, now: float) -> bool:
        """Whether a request that waits here is overdue."""
        return self._tenants is not None and self._tenants.has_overdue(request, now)

    def steps_to_starvation(self, now: float, step: int) -> int | None:
        """Steps until :meth:`starved` names somebody, 0: now; None while only time or nothing."""
        first = self._timers.first()
        if first is None:
            return None
        if not self._in_steps:
            return 0 if first[0] <= now else None
        return max(0, int(first[0]) - step)

    def retry_after(self, now: float) -> float | None:
        """Seconds in which a tenth of the line will have left at the rate of late.

        Not the time until one place is free: all who were refused would come back for that one.
        """
        if not self._departures or now <= self._departures[0]:
            return None
        seconds = (now - self._departures[0]) / len(self._departures)
        return seconds * max(1.0, self._count / 10)

    # -- accounts --------------------------------------------------------------------------------

    def charge(self, tenant: str, service: float) -> None:
        """Count service of a tenant, in weighted tokens; negative gives back."""
        if self._tenants is not None:
            self._tenants.charge(tenant, service)

    def budget_changed(self, tenant: str) -> None:
        """The tenant's bucket was charged or refunded."""
        if self._tenants is not None:
            self._tenants.budget_changed(tenant)

    @property
    def crowded(self) -> bool:
        """Whether it is time to :meth:`forget_idle`."""
        return self.counters is not None and self.counters.crowded

    def forget_idle(self, busy: set[str], now: float) -> None:
        """Drop counters of no consequence; ``busy``: tenants with requests running."""
        if self._tenants is not None:
            self._tenants.forget_idle(busy, now)

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` when queues, ranks and counts contradict each other."""
        self._places.check_integrity()
        self._timers.check_integrity()
        if self._tenants is not None:
            self._tenants.check_integrity()
        waiting = set(self)
        if len(waiting) != self._count or not set(self._timers) <= waiting:
            raise RuntimeError(f"lane {self.lane.name!r} has lost count of its requests")
