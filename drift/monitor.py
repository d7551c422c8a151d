"""Outcomes in, events out: the drift monitor. No clock, no randomness, no files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from drift.arrival import ArrivalOrder
from drift.config import MonitorConfig
from drift.events import Event
from drift.features import Baselines
from drift.key import Key
from drift.lesson import Lesson, School
from drift.opened import Open
from drift.reference import Reference
from drift.series import Series
from drift.snapshot import Snapshot
from drift.states import State
from drift.stream import Point
from drift.view import Seen, View, Worked
from drift.watch import Watch
from ranker.types import Outcome

__all__ = ["Monitor", "Snapshot"]


class Monitor:
    """Watches each served model x ranker version, and each of its slices, in arrival order.

    ``references`` and ``baselines`` hold what is known of a ranker beforehand, by series: how well
    it ordered, and how lengths and inputs were distributed. Other series learn theirs from their
    first outcomes. A request without a forecast counts against the ranker version that
    its served model used last. When a series is over (``drift.watch`` says when) and had left
    ``ok``, an event of cause ``closed`` says so. Not safe for several threads at once:
    ``drift.sink`` is.
    """

    def __init__(
        self,
        config: MonitorConfig | None = None,
        references: Mapping[Key, Reference] | None = None,
        baselines: Mapping[Key, Baselines] | None = None,
    ) -> None:
        self._config = config or MonitorConfig()
        self._school = School()
        self._watch = Watch(self._config, references or {}, baselines or {}, self._school)

    def defer(self) -> None:
        """From now on lessons wait in :meth:`lessons`; they take long, and nobody has to wait."""
        self._school.deferred = True

    def lessons(self) -> list[Lesson]:
        """References to be learned, in order; give each back to :meth:`learned`."""
        return self._school.take()

    def learned(self, lesson: Lesson, reference: Reference | None) -> list[Event]:
        """Take up what ``lesson.learn()`` gave. Its series may be over: then it is for nothing."""
        series = self._watch.find(lesson.key)
        return series.learned(lesson, reference) if series is not None else []

    def update(self, outcome: Outcome) -> list[Event]:
        """Take one completion; events of whatever it released, oldest first."""
        order = self._watch.order(outcome.served_model)
        for series in self._watch.watched(outcome):
            series.ended(outcome)
        if order.bounded(outcome.request_id):
            self._settle(outcome)
        elif order.missed(outcome):
            for series in self._watch.late_for(outcome):
                series.late(outcome)
        return self._weigh(order, order.push(outcome))

    def note(self, requests: Iterable[Open]) -> None:
        """Requests are under way: each enters as a lower bound when its place in order comes."""
        for request in requests:
            self._watch.order(request.served_model).note(request)

    def flush(self) -> list[Event]:
        """Weigh what is held for order, and look at every series: at the end of traffic."""
        events: list[Event] = []
        for order in list(self._watch.orders.values()):  # weighing may forget one
            events += self._weigh(order, order.flush())
        for series in self._watch.all():
            events += series.look()
        return events

    def supersede(self, served_model: str, ranker: str, version: str, at: float) -> list[Event]:
        """That ranker version is what ``served_model`` uses from Unix second ``at`` on: all others
        of it are over, and outcomes that still come of them are not weighed any more."""
        self._watch.supersede(Key(served_model, ranker, version), at)
        return self._watch.events()

    def idle(self, now: float) -> list[Event]:
        """Close what has got no outcome for long, at second ``now`` of whoever calls this now and
        then."""
        self._watch.idle(now)
        return self._watch.events()

    def stale(self, now: float) -> list[Event]:
        """The same by arrival, of what is not ``ok``: after a restart at Unix second ``now``."""
        self._watch.stale(now)
        return self._watch.events()

    def snapshots(self) -> list[Snapshot]:
        """Every ranker version as a whole, the most recently used last."""
        return [self._snapshot(series) for series in self._watch.whole.values()]

    def snapshot(self, served_model: str) -> Snapshot | None:
        """The ranker version that ``served_model`` uses now, as a whole."""
        key = self._watch.current.get(served_model)
        return self._snapshot(self._watch.whole[key]) if key is not None else None

    def slices(self, served_model: str) -> list[Snapshot]:
        """The slices of the ranker version that ``served_model`` uses now; none while all of its
        traffic is one."""
        key = self._watch.current.get(served_model)
        return [self._snapshot(s) for s in self._watch.slices.values() if s.key.whole == key]

    @property
    def totals(self) -> tuple[int, int, int]:
        """Late outcomes, open requests that entered as lower bounds, and those of them that ended
        since; of the served models that are still known."""
        orders = self._watch.orders.values()
        return (
            sum(order.late for order in orders),
            sum(order.bounds for order in orders),
            sum(order.settled for order in orders),
        )

    def versions(self) -> Set[Key]:
        """Every ranker version that is shown, in use or not."""
        return self._watch.whole.keys()

    def progress(self) -> list[tuple[Key, int, State]]:
        """Every series that is in use now with its outcomes so far and its state."""
        return [
            (series.key, series.stream.outcomes, series.stream.state)
            for series in self._watch.all()
            if self._watch.current.get(series.key.served_model) == series.key.whole
        ]

    def references(self) -> dict[Key, Reference]:
        """What each series is measured against, where that is known; and what those that are over
        were."""
        both = (self._watch.whole | self._watch.slices).items()
        own = {k: s.stream.reference for k, s in both if s.stream.reference is not None}
        return self._watch.memory.references | own

    def baselines(self) -> dict[Key, Baselines]:
        """Distributions that each series is compared with, where they are known."""
        both = (self._watch.whole | self._watch.slices).items()
        return {k: s.baselines for k, s in both if s.baselines is not None}

    def history(self, key: Key) -> tuple[Point, ...]:
        """Looks at the window of one series, oldest first. Raises ``KeyError`` when unknown."""
        return tuple(self._watch.at(key).stream.history)

    def of_order(self, key: Key) -> State:
        """The state of one series that lost order alone accounts for, missing forecasts and changed
        lengths aside. Raises ``KeyError`` when unknown."""
        return self._watch.at(key).stream.of_order

    def early(self, key: Key) -> bool:
        """Whether order of one series seems lost by outcomes as they end, see ``drift.early``.
        Raises ``KeyError`` when unknown."""
        return self._watch.at(key).stream.early

    def recent(self, key: Key) -> tuple[Outcome, ...]:
        """The outcomes in the window of one series. Raises ``KeyError`` when unknown."""
        return self._watch.at(key).recent

    def view(self, worked: Worked | None = None) -> View:
        """All that can be shown, as it is now; ``worked`` as :class:`drift.view.View` has it."""
        series = [*self._watch.whole.values(), *self._watch.slices.values()]
        return View(map(self._seen, series), self._config.confidence, worked)

    def _weigh(self, order: ArrivalOrder, outcomes: Sequence[Outcome]) -> list[Event]:
        events: list[Event] = []
        for outcome in outcomes:
            bound = order.bounded(outcome.request_id)
            for series in self._watch.series_of(outcome):
                events += series.update(outcome, bound)
            events += self._watch.events()
        return events

    def _settle(self, outcome: Outcome) -> None:
        """Its lower bound lies in the window of its version and of one slice of that."""
        whole = self._watch.key(outcome)
        for key, series in [*self._watch.whole.items(), *self._watch.slices.items()]:
            if key.whole == whole:
                series.settle(outcome)

    def _snapshot(self, series: Series) -> Snapshot:
        return self._seen(series).snapshot(self._config.confidence)

    def _seen(self, series: Series) -> Seen:
        key, stream = series.key, series.stream
        order = self._watch.orders[key.served_model]
        traffic = 1.0
        if key.tenant is not None:
            traffic = self._watch.parts[key.served_model].share((key.lane, key.tenant))
        span = series.first_arrival, series.last_arrival
        return Seen(
            key=key,
            state=stream.state,
            outcomes=stream.outcomes,
            recent=series.recent,
            history=tuple(stream.history),
            reference=stream.reference,
            baselines=series.baselines,
            chart=stream.chart.value if stream.chart is not None else None,
            span=span,
            mark=(span, series.changes, series.baselines is None),
            held=order.held,
            late=order.late,
            open=order.open,
            bounds=order.bounds,
            settled=order.settled,
            traffic=traffic,
            current=self._watch.current.get(key.served_model) == key.whole,
        )
