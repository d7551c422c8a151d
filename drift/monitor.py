"""Outcomes in, events out: the drift monitor. No clock, no randomness, no files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from drift.arrival import ArrivalOrder
from drift.cohorts import measure
from drift.config import MonitorConfig
from drift.detail import Detail
from drift.events import Event
from drift.features import Baselines
from drift.figures import Shift
from drift.key import Key
from drift.opened import Open
from drift.reference import Reference
from drift.series import Series
from drift.slices import Slices
from drift.snapshot import Snapshot
from drift.states import State
from drift.stream import Point
from ranker.types import Outcome

__all__ = ["Monitor", "Snapshot"]


class Monitor:
    """Watches each served model x ranker version, and each of its slices, in arrival order.

    ``references`` and ``baselines`` hold what is known of a ranker beforehand, by series: how well
    it ordered, and how lengths and inputs were distributed. Other series learn theirs from their
    first outcomes. A request without a forecast counts against the ranker version that
    its served model used last. Not safe for several threads at once:
    ``drift.sink`` is.
    """

    def __init__(
        self,
        config: MonitorConfig | None = None,
        references: Mapping[Key, Reference] | None = None,
        baselines: Mapping[Key, Baselines] | None = None,
    ) -> None:
        self._config = config or MonitorConfig()
        self._of_slices = self._config.of_slices
        self._references = dict(references or {})
        self._baselines = dict(baselines or {})
        self._orders: dict[str, ArrivalOrder] = {}
        self._parts: dict[str, Slices] = {}
        self._current: dict[str, Key] = {}
        self._whole: dict[Key, Series] = {}  # the most recently used last
        self._slices: dict[Key, Series] = {}

    def update(self, outcome: Outcome) -> list[Event]:
        """Take one completion; events of whatever it released, oldest first."""
        order = self._order(outcome.served_model)
        if order.bounded(outcome.request_id):
            self._settle(outcome)
        elif order.missed(outcome):
            for series in self._series_of(outcome):
                series.late(outcome)
        return self._weigh(order, order.push(outcome))

    def note(self, requests: Iterable[Open]) -> None:
        """Requests are under way: each enters as a lower bound when its place in order comes."""
        for request in requests:
            self._order(request.served_model).note(request)

    def flush(self) -> list[Event]:
        """Weigh what is held for order, and look at every series: at the end of traffic."""
        events: list[Event] = []
        for order in list(self._orders.values()):  # weighing may forget one
            events += self._weigh(order, order.flush())
        for series in [*self._whole.values(), *self._slices.values()]:
            events += series.look()
        return events

    def snapshots(self) -> list[Snapshot]:
        """Every ranker version as a whole, the most recently used last."""
        return [self._snapshot(series) for series in self._whole.values()]

    def snapshot(self, served_model: str) -> Snapshot | None:
        """The ranker version that ``served_model`` uses now, as a whole."""
        key = self._current.get(served_model)
        return self._snapshot(self._whole[key]) if key is not None else None

    def slices(self, served_model: str) -> list[Snapshot]:
        """The slices of the ranker version that ``served_model`` uses now; none while all of its
        traffic is one."""
        key = self._current.get(served_model)
        return [self._snapshot(s) for s in self._slices.values() if s.key.whole == key]

    @property
    def totals(self) -> tuple[int, int, int]:
        """Late outcomes, open requests that entered as lower bounds, and those of them that ended
        since; of the served models that are still known."""
        orders = self._orders.values()
        return (
            sum(order.late for order in orders),
            sum(order.bounds for order in orders),
            sum(order.settled for order in orders),
        )

    def progress(self) -> list[tuple[Key, int, State]]:
        """Every series that is in use now with its outcomes so far and its state."""
        return [
            (key, series.stream.outcomes, series.stream.state)
            for key, series in [*self._whole.items(), *self._slices.items()]
            if self._current.get(key.served_model) == key.whole
        ]

    def references(self) -> dict[Key, Reference]:
        """What each series is measured against, where that is known."""
        both = (self._whole | self._slices).items()
        return {k: s.stream.reference for k, s in both if s.stream.reference is not None}

    def baselines(self) -> dict[Key, Baselines]:
        """Distributions that each series is compared with, where they are known."""
        both = (self._whole | self._slices).items()
        return {k: s.baselines for k, s in both if s.baselines is not None}

    def history(self, key: Key) -> tuple[Point, ...]:
        """Looks at the window of one series, oldest first. Raises ``KeyError`` when unknown."""
        return tuple(self._at(key).stream.history)

    def recent(self, key: Key) -> tuple[Outcome, ...]:
        """The outcomes in the window of one series. Raises ``KeyError`` when unknown."""
        return self._at(key).recent

    def detail(self, key: Key) -> Detail:
        """The window of one series in depth. Raises ``KeyError`` when unknown."""
        return self._at(key).detail()

    def shifts(self, key: Key) -> tuple[Shift, ...]:
        """The window of one series against its reference. Raises ``KeyError`` when unknown."""
        return self._at(key).shifts()

    def span(self, key: Key) -> tuple[float, float]:
        """First and last arrival of one series. Raises ``KeyError`` when unknown."""
        series = self._at(key)
        return series.first_arrival, series.last_arrival

    def _at(self, key: Key) -> Series:
        return self._slices[key] if key.sliced else self._whole[key]

    def _order(self, served_model: str) -> ArrivalOrder:
        if served_model not in self._orders:
            self._orders[served_model] = ArrivalOrder(self._config.hold)
            self._parts[served_model] = Slices(self._config.slices)
            while len(self._orders) > self._config.streams:  # of models only known to be open
                idle = next((m for m in self._orders if m not in self._current), None)
                if idle is None or idle == served_model:
                    break
                self._drop_model(idle)
        return self._orders[served_model]

    def _weigh(self, order: ArrivalOrder, outcomes: Sequence[Outcome]) -> list[Event]:
        return [
            event
            for outcome in outcomes
            for series in self._series_of(outcome)
            for event in series.update(outcome, order.bounded(outcome.request_id))
        ]

    def _settle(self, outcome: Outcome) -> None:
        """Its lower bound lies in the window of its version and of one slice of that."""
        whole = self._key(outcome)
        for key, series in [*self._whole.items(), *self._slices.items()]:
            if key.whole == whole:
                series.settle(outcome)

    def _key(self, outcome: Outcome) -> Key:
        model, forecast = outcome.served_model, outcome.forecast
        current = self._current.get(model)
        if forecast is None:
            return current or Key(model, "", "")
        ranker, version = forecast.ranker, forecast.version
        if current is not None and current.ranker == ranker and current.version == version:
            return current
        return Key(model, ranker, version)

    def _series_of(self, outcome: Outcome) -> list[Series]:
        """The version that ``outcome`` counts for, and its slice of it if there is one."""
        model, key = outcome.served_model, self._key(outcome)
        found = [self._used(self._whole, key, self._config)]
        if outcome.forecast is not None or model not in self._current:
            self._current[model] = key
            if key.ranker:  # a series of requests that no ranker had seen yet is over
                self._drop(Key(model, "", ""))
        self._order(model)  # weighing what was held may come after its model was forgotten
        part = self._parts[model].of(outcome.lane, outcome.tenant)
        if part is not None:
            found.append(self._used(self._slices, found[0].slice(part), self._of_slices))
        self._forget()
        return found

    def _used(self, among: dict[Key, Series], key: Key, config: MonitorConfig) -> Series:
        """The series of ``key``, made when there is none; now the last in order of use."""
        series = among.pop(key, None)
        if series is None:
            known = self._references.get(key), self._baselines.get(key)
            series = Series(key, config, *known)
        among[key] = series
        return series

    def _forget(self) -> None:
        """Bound memory, whatever names reporters invent: the longest unused series goes."""
        while len(self._slices) > self._config.slices.total:
            del self._slices[next(iter(self._slices))]
        while len(self._whole) > self._config.streams:
            self._drop(next(iter(self._whole)))

    def _drop(self, key: Key) -> None:
        """Forget a version with its slices, and its served model with its last version."""
        if self._whole.pop(key, None) is None:
            return
        for part in [k for k in self._slices if k.whole == key]:
            del self._slices[part]
        if self._current.get(key.served_model) == key:
            del self._current[key.served_model]
        if all(k.served_model != key.served_model for k in self._whole):
            self._drop_model(key.served_model)

    def _drop_model(self, served_model: str) -> None:
        del self._orders[served_model]
        del self._parts[served_model]

    def _snapshot(self, series: Series) -> Snapshot:
        key, stream = series.key, series.stream
        order = self._orders[key.served_model]
        traffic = 1.0
        if key.lane is not None and key.tenant is not None:
            traffic = self._parts[key.served_model].share((key.lane, key.tenant))
        return Snapshot(
            key=key,
            state=stream.state,
            outcomes=stream.outcomes,
            cohort=measure(series.recent, self._config.confidence),
            reference=stream.reference,
            chart=stream.chart.value if stream.chart is not None else None,
            held=order.held,
            late=order.late,
            current=self._current.get(key.served_model) == key.whole,
            open=order.open,
            bounds=order.bounds,
            settled=order.settled,
            traffic=traffic,
        )
