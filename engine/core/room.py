"""Everybody who waits: lanes, tenants and policies decide together who is next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.core.budgets import Buckets
from engine.core.charges import Charges
from engine.core.fairness import FairnessConfig
from engine.core.hierarchy import Hierarchy
from engine.core.lanes import Lane
from engine.core.line import Line
from engine.core.request import Request
from engine.core.tenants import Place

__all__ = ["Place", "QueueFull", "Room"]


class QueueFull(Exception):
    """As many requests wait as may wait.

    lane: name of the lane that refused. retry_after: seconds after which to try again, from the
    rate at which the lane's requests were admitted lately; None when that is not known.
    """

    def __init__(self, lane: str, waiting: int, retry_after: float | None) -> None:
        hint = "" if retry_after is None else f"; try again in {retry_after:.1f} s"
        super().__init__(f"lane {lane!r} is full: {waiting} requests wait already{hint}")
        self.lane = lane
        self.retry_after = retry_after


class Room:
    """Waiting requests, and the accounts of those that were admitted from here.

    Order: requests overdue by their lane's ``max_wait``, the one overdue for longest first; then
    lanes by precedence, strictly; then the lane with the least service for its share; in it the
    tenant with the least service for its weight, among those with budget; then the policy's place.
    Ties between lanes go to the lane listed first, between tenants to the first place.

    A tenant has one counter per lane, so that who is served much in a busy lane owes nothing in a
    quiet one. Budgets bind in all lanes together, and even the overdue wait for them; whoever was
    admitted once is paid for. ``now`` and ``step`` never descend. An operation takes O(log n)
    time, and O(lanes).
    """

    def __init__(
        self, lanes: Sequence[Lane], fairness: FairnessConfig | None, max_waiting: int
    ) -> None:
        """Raises ``ValueError`` without lanes, on equal names, or ``max_waiting`` below 1."""
        if not lanes:
            raise ValueError("lanes must name at least one lane")
        if max_waiting < 1:
            raise ValueError(f"max_waiting must be at least 1, got {max_waiting}")
        names = [lane.name for lane in lanes]
        if len(set(names)) != len(names):
            raise ValueError(f"lanes must have different names, got {', '.join(names)}")
        config = FairnessConfig() if fairness is None else fairness
        buckets = Buckets(config.budget) if config.limits else None
        self._max_waiting = max_waiting
        self._lines = {lane.name: Line(lane, fairness, buckets) for lane in lanes}
        self._first = self._lines[names[0]]
        self._single = len(lanes) == 1
        self._hierarchy = Hierarchy(tuple(self._lines.values()))
        counts = fairness is not None or len(lanes) > 1
        self._charges = Charges(config, self._hierarchy, buckets, counts)
        self._waiting: dict[str, tuple[Request, Line]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        """Waiting requests in no particular order."""
        return (request for request, _ in self._waiting.values())

    def __contains__(self, request: Request) -> bool:
        found = self._waiting.get(request.id)
        return found is not None and found[0] is request

    def lane_of(self, request: Request) -> Lane:
        """The lane that a request names. Raises ``ValueError`` naming those there are."""
        return self._line(request.lane).lane

    def lane_named(self, name: str) -> Lane:
        """The lane of that name, the first for "". Raises ``ValueError`` naming those there are."""
        return self._line(name).lane

    def check_room(self, request: Request, now: float) -> None:
        """Raise ``QueueFull`` when a new request may not wait here; see :meth:`Hierarchy.bound`."""
        line = self._line(request.lane)
        if len(self) >= self._hierarchy.bound(line, self._max_waiting):
            raise QueueFull(line.lane.name, len(self), line.retry_after(now))
        own = line.lane.config.max_waiting
        if own is not None and len(line) >= own:
            raise QueueFull(line.lane.name, len(line), line.retry_after(now))

    # -- requests come and go --------------------------------------------------------------------

    def push(self, request: Request, place: Place, now: float, step: int) -> None:
        """A request begins to wait: it arrived, was preempted, or moved here from another lane.

        Its wait counts from its arrival, or from ``now`` when it was admitted before. Raises
        ``ValueError`` when its id waits already.
        """
        if request.id in self._waiting:
            raise ValueError(f"request {request.id!r} waits already")
        line = self._line(request.lane)
        paid = request in self._charges
        if paid:
            self._charges.paused(request)
        if not self._single and not len(line):
            self._hierarchy.returns(line, now)
        self._waiting[request.id] = (request, line)
        since = now if paid else request.arrival
        line.push(request, place, since=since, now=now, step=step, paid=paid)

    def remove(self, request: Request) -> None:
        """It was aborted or moves to another lane. Raises ``KeyError`` when it does not wait."""
        line = self._take(request)
        line.remove(request)
        self._left(line)

    def rekey(self, request: Request, place: Place) -> None:
        """Raises ``KeyError`` when it does not wait."""
        if request not in self:
            raise KeyError(request.id)
        self._waiting[request.id][1].rekey(request, place)

    def pop(self, request: Request, now: float) -> None:
        """A waiting request, any, was admitted. Raises ``KeyError`` when it does not wait."""
        line = self._take(request)
        line.admitted(request, now)
        self._left(line)
        self._charges.admitted(request, line, now)

    def moved(self, request: Request) -> None:
        """A running request changed its lane: it counts there from now on."""
        self._charges.moved(request, self._line(request.lane))

    def settle(self, request: Request, now: float) -> None:
        """It ended: what it was charged becomes what it used; nothing if it was never admitted."""
        self._charges.settle(request, now)

    # -- who is next -----------------------------------------------------------------------------

    def head(self, now: float) -> Request | None:
        """The request to be admitted next; None when nobody waits who has budget."""
        if self._single:
            return self._first.head(now)
        return next(self.heads(now), None)

    def heads(self, now: float) -> Iterator[Request]:
        """The head of each lane that has one, in the order in which lanes would be served."""
        late: list[tuple[tuple[float, int], Request]] = []
        rest: list[tuple[tuple[int, float], Request]] = []
        for line in self._lines.values():
            if (overdue := line.overdue(now)) is not None:
                late.append(overdue)
            elif (head := line.head(now)) is not None:
                rest.append((self._hierarchy.order(line), head))
        late.sort(key=lambda found: found[0])
        rest.sort(key=lambda found: found[0])
        return iter([request for _, request in late] + [request for _, request in rest])

    def starved(self, now: float, step: int) -> list[Request]:
        """Who has waited for its policy's starvation in one go; each is told once per wait."""
        return [request for line in self._lines.values() for request in line.starved(now, step)]

    def next_event(self, now: float) -> float | None:
        """Seconds above ``now`` before which time alone changes neither head nor starved."""
        times = (line.next_event(now) for line in self._lines.values())
        return min((time for time in times if time is not None), default=None)

    def overdue(self, request: Request, now: float) -> bool:
        """Whether a waiting request has waited for its lane's ``max_wait``."""
        return self._waiting[request.id][1].has_overdue(request, now)

    def steps_to_starvation(self, now: float, step: int) -> int | None:
        """Steps until :meth:`starved` names somebody, 0: now; None while only time or nothing."""
        left = (line.steps_to_starvation(now, step) for line in self._lines.values())
        return min((steps for steps in left if steps is not None), default=None)

    # -- what an observer may ask ----------------------------------------------------------------

    def virtual(self, tenant: str, lane: str = "") -> float:
        """Service of a tenant in a lane for its weight, in weighted tokens; 0 without counters."""
        counters = self._line(lane).counters
        return 0.0 if counters is None else counters.value(tenant)

    def lane_virtual(self, lane: str) -> float:
        """Service of a lane for its share, in weighted tokens; 0 with one lane and no fairness."""
        return self._hierarchy.order(self._line(lane))[1]

    def waiting_in(self, lane: str) -> int:
        return len(self._line(lane))

    def waits_in(self, lane: str) -> Iterator[Request]:
        """Who that is, in no particular order."""
        return iter(self._line(lane))

    def running_in(self, lane: str) -> int:
        """Requests of a lane that were admitted and neither ended nor wait again."""
        return self._line(lane).running

    def share_of_slots(self, lane: str, total_slots: int) -> float:
        """Slots a lane is entitled to now; see :meth:`Hierarchy.share_of_slots`."""
        return self._hierarchy.share_of_slots(self._line(lane), total_slots)

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` when lanes, tenants and counts contradict each other."""
        for line in self._lines.values():
            line.check_integrity()
            if set(line) != {request for request, where in self._waiting.values() if where is line}:
                raise RuntimeError(f"lane {line.lane.name!r} lost a request or holds another's")
            if line.running != sum(charge.runs_in is line for charge in self._charges):
                raise RuntimeError(f"lane {line.lane.name!r} has lost count of who runs")
        for charge in self._charges:
            if (charge.runs_in is None) != (charge.request in self):
                raise RuntimeError(f"{charge.request.id!r} neither waits nor runs, or does both")

    def _line(self, name: str) -> Line:
        if not name:
            return self._first
        line = self._lines.get(name)
        if line is None:
            raise ValueError(f"request.lane must be one of {', '.join(self._lines)}, got {name!r}")
        return line

    def _take(self, request: Request) -> Line:
        if request not in self:
            raise KeyError(request.id)
        return self._waiting.pop(request.id)[1]

    def _left(self, line: Line) -> None:
        if not self._single and not len(line):
            self._hierarchy.left(line)
