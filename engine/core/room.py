"""Everybody who waits: lanes, tenants and policies decide together who is next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.core.budgets import Buckets
from engine.core.charges import Charge, Tariff
from engine.core.fairness import FairnessConfig, VirtualCounters
from engine.core.lanes import Lane, max_min
from engine.core.line import Line, Place
from engine.core.request import Request

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
    """Waiting requests, and the account of those that were admitted from here.

    Order: requests overdue by their lane's ``max_wait``, the one overdue for longest first; then
    lanes by precedence, strictly; then the lane with the least service for its share; in it the
    tenant with the least service for its weight, among those with budget; then the policy's place.
    Ties between lanes go to the lane listed first, between tenants to the first place.

    Service is weighted tokens: expected ones from admission on, real ones once a request ended.
    Lane and tenant counters are those of :class:`VirtualCounters`; a tenant has one per lane, so
    that who is served much in a busy lane owes nothing in a quiet one. Budgets bind in all lanes
    together, and even the overdue wait for them. Every operation takes O(log n), and O(lanes).
    """

    def __init__(
        self, lanes: Sequence[Lane], fairness: FairnessConfig | None, max_waiting: int
    ) -> None:
        """Raises ``ValueError`` without lanes, on twins, or ``max_waiting`` below 1."""
        if not lanes:
            raise ValueError("lanes must name at least one lane")
        if max_waiting < 1:
            raise ValueError(f"max_waiting must be at least 1, got {max_waiting}")
        names = [lane.name for lane in lanes]
        if len(set(names)) != len(names):
            raise ValueError(f"lanes must have different names, got {', '.join(names)}")
        config = FairnessConfig() if fairness is None else fairness
        self._max_waiting = max_waiting
        self._buckets = Buckets(config.budget) if config.limits else None
        self._tariff = Tariff(config)
        self._bills = fairness is not None or len(lanes) > 1
        self._lines = {lane.name: Line(lane, fairness, self._buckets) for lane in lanes}
        self._order = list(self._lines.values())
        self._single = self._order[0] if len(lanes) == 1 else None
        shares = {lane.name: lane.config.share for lane in lanes}
        self._precedences = sorted({lane.config.precedence for lane in lanes})
        self._lane_counters = {
            precedence: VirtualCounters(shares.__getitem__) for precedence in self._precedences
        }
        self._waiting: dict[str, tuple[Request, Line]] = {}
        self._charges: dict[str, Charge] = {}
        self._now = 0.0

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
        return self._line_named(request.lane).lane

    def check_room(self, request: Request, now: float) -> None:
        """Raise ``QueueFull`` when a new request may not wait here.

        Of the last tenth of ``max_waiting`` lanes of lower precedence may use less, step by step,
        so that they are refused first when the room fills up.
        """
        line = self._line_named(request.lane)
        bound = self._max_waiting
        if len(self._precedences) > 1:
            level = self._precedences.index(line.lane.config.precedence)
            bound -= self._max_waiting // 10 * level // (len(self._precedences) - 1)
        own = line.lane.config.max_waiting
        if len(self) >= bound:
            raise QueueFull(line.lane.name, len(self), line.retry_after(now))
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
        line = self._line_named(request.lane)
        charge = self._charges.get(request.id)
        since = request.arrival
        if charge is not None:
            since = now
            self._stop(charge)
        if self._single is None and not len(line):
            self._lift(line, now)
        self._now = max(self._now, now)
        self._waiting[request.id] = (request, line)
        line.push(request, place, since=since, now=now, step=step, paid=charge is not None)

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
        """Any waiting request was admitted; charged the first time. ``KeyError`` if none waits."""
        line = self._take(request)
        line.admitted(request, now)
        self._left(line)
        self._now = max(self._now, now)
        charge = self._charges.get(request.id)
        if charge is not None:
            charge.runs_in = line
            return
        output = self._tariff.expected_output(request) if self._bills else 0.0
        charge = self._charges[request.id] = Charge(request, line, output, line)
        if self._bills:
            self._bill(charge, request.prompt_tokens, output)
            if line.counters is not None and line.counters.crowded:
                line.forget_idle({c.request.tenant for c in self._charges.values()}, now)

    def settle(self, request: Request) -> None:
        """It ended: what it was charged becomes what it used. Nothing if it was never admitted."""
        charge = self._charges.get(request.id)
        if charge is None or charge.request is not request:
            return
        del self._charges[request.id]
        self._stop(charge)
        if self._bills:
            self._tariff.learn(request)
            self._bill(charge, 0.0, request.output_tokens - charge.output)

    # -- who is next -----------------------------------------------------------------------------

    def head(self, now: float) -> Request | None:
        """The request to be admitted next; None when nobody waits who has budget."""
        if self._single is not None:
            return self._single.head(now)
        return next(self.heads(now), None)

    def heads(self, now: float) -> Iterator[Request]:
        """The head of each lane that has one, in the order in which lanes would be served."""
        found: list[tuple[tuple[float, float, float, int], Request]] = []
        for index, line in enumerate(self._order):
            overdue = line.overdue(now)
            if overdue is not None:
                (due, number), request = overdue
                found.append(((0.0, due, number, index), request))
            elif (head := line.head(now)) is not None:
                precedence = line.lane.config.precedence
                counter = self._lane_counters[precedence].value(line.lane.name)
                found.append(((1.0, precedence, counter, index), head))
        found.sort(key=lambda item: item[0])
        return (request for _, request in found)

    def starved(self, now: float, step: int) -> list[Request]:
        """Who has waited for its policy's starvation in one go; each is told once per wait."""
        return [request for line in self._order for request in line.starved(now, step)]

    def next_event(self, now: float) -> float | None:
        """Seconds above ``now`` before which time alone changes neither head nor starved."""
        times = (line.next_event(now) for line in self._order)
        return min((time for time in times if time is not None), default=None)

    def steps_to_starvation(self, step: int) -> int | None:
        """Steps until :meth:`starved` names somebody, None while only time or nothing will."""
        left = (line.steps_to_starvation(step) for line in self._order)
        return min((steps for steps in left if steps is not None), default=None)

    # -- what an observer may ask ----------------------------------------------------------------

    def virtual(self, tenant: str, lane: str = "") -> float:
        """Service of a tenant in a lane for its weight, in weighted tokens; 0 without counters."""
        counters = self._line_named(lane).counters
        return 0.0 if counters is None else counters.value(tenant)

    def lane_virtual(self, lane: str) -> float:
        """Service of a lane for its share, in weighted tokens."""
        config = self._line_named(lane).lane.config
        return self._lane_counters[config.precedence].value(config.name)

    def waiting_in(self, lane: str) -> int:
        return len(self._line_named(lane))

    def running_in(self, lane: str) -> int:
        """Requests admitted from a lane that neither ended nor wait again."""
        return self._line_named(lane).running

    def share_of_slots(self, lane: str, total_slots: int) -> float:
        """Slots a lane is entitled to now: max-min by share among equals, after its superiors.

        No lane is entitled to more than it has waiting and running.
        """
        left = float(total_slots)
        wanted = self._line_named(lane)
        for precedence in self._precedences:
            group = [line for line in self._order if line.lane.config.precedence == precedence]
            demands = [float(len(line) + line.running) for line in group]
            given = max_min(left, demands, [line.lane.config.share for line in group])
            if wanted in group:
                return given[group.index(wanted)]
            left -= sum(given)
        raise AssertionError("every lane has a precedence")

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` when lanes, tenants and counts contradict each other."""
        for line in self._order:
            line.check_integrity()
            here = {request.id for request, where in self._waiting.values() if where is line}
            if {request.id for request in line} != here:
                raise RuntimeError(f"lane {line.lane.name!r} lost a request or holds another's")
            runs = sum(charge.runs_in is line for charge in self._charges.values())
            if runs != line.running:
                raise RuntimeError(f"lane {line.lane.name!r} has lost count of who runs")
        for name, charge in self._charges.items():
            if (charge.runs_in is None) != (name in self._waiting):
                raise RuntimeError(f"admitted request {name!r} neither waits nor runs, or both")

    def _line_named(self, name: str) -> Line:
        if not name:
            return self._order[0]
        line = self._lines.get(name)
        if line is None:
            raise ValueError(f"request.lane must be one of {', '.join(self._lines)}, got {name!r}")
        return line

    def _take(self, request: Request) -> Line:
        if request not in self:
            raise KeyError(request.id)
        return self._waiting.pop(request.id)[1]

    def _lift(self, line: Line, now: float) -> None:
        """A lane where nobody waited returns among its equals."""
        precedence = line.lane.config.precedence
        counters = self._lane_counters[precedence]
        least = min(
            (
                counters.value(other.lane.name)
                for other in self._order
                if other.lane.config.precedence == precedence and other.head(now) is not None
            ),
            default=None,
        )
        counters.lift(line.lane.name, least)

    def _left(self, line: Line) -> None:
        if self._single is None and not len(line):
            self._lane_counters[line.lane.config.precedence].left(line.lane.name)

    def _stop(self, charge: Charge) -> None:
        if charge.runs_in is not None:
            charge.runs_in.running -= 1
            charge.runs_in = None

    def _bill(self, charge: Charge, prompt: float, output: float) -> None:
        line, tenant = charge.billed, charge.request.tenant
        service = self._tariff.service(prompt, output)
        self._lane_counters[line.lane.config.precedence].charge(line.lane.name, service)
        line.charge(tenant, service)
        if self._buckets is not None:
            self._buckets.charge(tenant, prompt + output, self._now)
            for other in self._order:
                other.budget_changed(tenant)
