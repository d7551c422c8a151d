"""Which series are watched, from when and until when: made when first met, closed when over."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from drift.arrival import ArrivalOrder
from drift.config import MonitorConfig
from drift.events import Event
from drift.features import Baselines
from drift.idle import Idle
from drift.key import Key
from drift.lesson import School
from drift.memory import Memory
from drift.reference import Reference
from drift.series import Series
from drift.slices import Slices
from drift.states import State
from ranker.types import Outcome

#: Versions that others took the place of.
_RETIRED = 256


class Watch:
    """Each served model with the ranker versions seen, and the slices of the one in use.

    A series is closed, with an event when it had left ``ok``, when another version has taken its
    place, when a slice with more traffic has, when there are too many, or when nothing came for
    long. What it was measured against is remembered for its return. Closed slices are gone; closed
    versions stay to be shown, until there are too many.
    """

    def __init__(
        self,
        config: MonitorConfig,
        references: Mapping[Key, Reference],
        baselines: Mapping[Key, Baselines],
        school: School,
    ) -> None:
        self.orders: dict[str, ArrivalOrder] = {}
        self.parts: dict[str, Slices] = {}
        self.current: dict[str, Key] = {}
        self.whole: dict[Key, Series] = {}  # the most recently used last
        self.slices: dict[Key, Series] = {}
        self._config, self._of_slices = config, config.of_slices
        self._school = school
        self.memory = Memory(references, baselines)
        self._weighed: dict[str, int] = {}
        self._leaving: dict[str, set[Key]] = {}
        self._retired: OrderedDict[Key, None] = OrderedDict()
        self._idle = Idle(config.idle)
        self._events: list[Event] = []

    def events(self) -> list[Event]:
        """What closing series said since the last call."""
        events, self._events = self._events, []
        return events

    def all(self) -> list[Series]:
        """Every series that is watched, versions first."""
        whole = [series for series in self.whole.values() if not series.closed]
        return [*whole, *self.slices.values()]

    def at(self, key: Key) -> Series:
        """Raises ``KeyError`` when unknown."""
        return self.slices[key] if key.sliced else self.whole[key]

    def find(self, key: Key) -> Series | None:
        return (self.slices if key.sliced else self.whole).get(key)

    def order(self, served_model: str) -> ArrivalOrder:
        if served_model not in self.orders:
            self.orders[served_model] = ArrivalOrder(self._config.hold)
            self.parts[served_model] = Slices(self._config.slices)
            while len(self.orders) > self._config.streams:  # of models only known to be open
                seen = {key.served_model for key in self.whole}
                idle = next((m for m in self.orders if m not in seen), None)
                if idle is None or idle == served_model:
                    break
                self._drop_model(idle)
        return self.orders[served_model]

    def key(self, outcome: Outcome) -> Key:
        """The version that ``outcome`` counts for; without a forecast the one that is in use."""
        model, forecast = outcome.served_model, outcome.forecast
        current = self.current.get(model)
        if forecast is None:
            return current or Key(model, "", "")
        ranker, version = forecast.ranker, forecast.version
        if current is not None and current.ranker == ranker and current.version == version:
            return current
        return Key(model, ranker, version)

    def series_of(self, outcome: Outcome) -> list[Series]:
        """The version that ``outcome`` counts for and its slice, if it has one; none when another
        version was said to have taken the place of that one. Closes what is over by it."""
        model, key = outcome.served_model, self.key(outcome)
        if key in self._retired:
            return []
        self.order(model)  # weighing what was held may come after its model was forgotten
        found = [self._used(self.whole, key, self._config)]
        if outcome.forecast is not None or model not in self.current:
            self._take_over(key, outcome.arrival)
        parts = self.parts[model]
        part = parts.of(outcome.lane, outcome.tenant)
        for gone in parts.gone():
            why = "other slices have more traffic: it counts among the rest now"
            self._close_slice(found[0].slice(gone), outcome.arrival, why)
        if part is not None:
            found.append(self._used(self.slices, found[0].slice(part), self._of_slices))
        count = self._weighed[model] = self._weighed.get(model, 0) + 1
        for series in found:
            series.weighed = count
        if self._leaving.get(model):
            self._lapse(model, outcome.arrival)
        self._bound(outcome.arrival)
        return found

    def late_for(self, outcome: Outcome) -> list[Series]:
        """The series whose window an outcome that missed its place belongs to. It counts as their
        traffic and changes none."""
        found = self.watched(outcome)
        if found:
            self.parts[outcome.served_model].of(outcome.lane, outcome.tenant)
        return found

    def watched(self, outcome: Outcome) -> list[Series]:
        """The series of ``outcome`` as far as there are any: it makes, closes and counts none."""
        whole = self.whole.get(self.key(outcome))
        if whole is None or whole.closed:
            return []
        part = self.parts[outcome.served_model].known(outcome.lane, outcome.tenant)
        own = self.slices.get(whole.slice(part)) if part is not None else None
        return [whole] if own is None else [whole, own]

    def supersede(self, key: Key, at: float) -> None:
        """``key`` is what its served model uses from Unix second ``at`` on, whatever outcomes still
        come of other versions: those are over at once."""
        self._retired.pop(key, None)
        self.order(key.served_model)
        self._used(self.whole, key, self._config)
        self._take_over(key, at)
        for other in [k for k in self.whole if k.served_model == key.served_model and k != key]:
            self._retired[other] = None
            self._replaced(other, at)
        while len(self._retired) > _RETIRED:
            self._retired.popitem(last=False)
        self._bound(at)

    def idle(self, now: float) -> None:
        """Close what got nothing for long, at Unix second ``now``."""
        for key in self._idle.look(((s.key, s.changes) for s in self.all()), now):
            hours = self._config.idle / 3600.0
            why = f"nothing was reported of it for {hours:.3g} hours"
            self._end(key, now, why)

    def stale(self, now: float) -> None:
        """Close what is not ``ok`` and whose last outcome arrived as long before Unix second
        ``now``: after a restart, which weighs it again."""
        for series in self.all():
            if (
                now - series.last_arrival >= self._config.idle
                and series.stream.state is not State.OK
            ):
                self._end(series.key, now, "nothing was reported of it before the restart")

    def _end(self, key: Key, at: float, why: str) -> None:
        """Of a version, its served model with all others of it when it is the one in use."""
        if key.sliced:
            self._close_slice(key, at, why)
        elif self.current.get(key.served_model) != key:
            self._drop(key, at, why)
        else:
            for version in [k for k in self.whole if k.served_model == key.served_model]:
                self._drop(version, at, why)

    def _take_over(self, key: Key, at: float) -> None:
        before = self.current.get(key.served_model)
        self.current[key.served_model] = key
        if before is None or before == key:
            return
        if before.ranker:
            self._leaving.setdefault(key.served_model, set()).add(before)
        else:  # a series of requests that no ranker had seen yet is over
            self._drop(before, at, f"ranker {key.ranker} {key.version} was seen".rstrip())

    def _lapse(self, model: str, at: float) -> None:
        """Versions that others came after, and of which nothing came since, are over."""
        leaving, current = self._leaving[model], self.current[model]
        leaving.discard(current)
        for key in list(leaving):
            series = self.whole.get(key)
            if series is None:
                leaving.discard(key)
            elif self._weighed[model] - series.weighed >= self._config.lapse:
                self._replaced(key, at)

    def _replaced(self, key: Key, at: float) -> None:
        """Another version took the place of ``key``."""
        self._leaving.get(key.served_model, set()).discard(key)
        current = self.current[key.served_model]
        why = f"ranker {current.ranker} {current.version} took its place".replace("  ", " ")
        for part in [k for k in self.slices if k.whole == key]:
            self._close_slice(part, at, why)
        series = self.whole.get(key)
        if series is not None and not series.closed:
            self._closed(series, at, why)

    def _used(self, among: dict[Key, Series], key: Key, config: MonitorConfig) -> Series:
        """The series of ``key``, made when it isn't watched; now the last in order of use."""
        series = among.pop(key, None)
        if series is None or series.closed:
            again = Series(key, config, *self.memory.of(key), self._school)
            if series is not None:  # its line goes on
                again.stream.history.extend(series.stream.history)
            series = again
        among[key] = series
        return series

    def _bound(self, at: float) -> None:
        """Bound memory, whatever names reporters invent: the longest unused series goes."""
        why = "too many are watched: others were used more recently"
        while len(self.slices) > self._config.slices.total:
            self._close_slice(next(iter(self.slices)), at, why)
        while len(self.whole) > self._config.streams:
            self._drop(next(iter(self.whole)), at, why)

    def _close_slice(self, key: Key, at: float, why: str) -> None:
        series = self.slices.pop(key, None)
        if series is None:
            return
        if key.lane is not None and key.tenant is not None:
            self.parts[key.served_model].leave((key.lane, key.tenant))
        self._closed(series, at, why)

    def _closed(self, series: Series, at: float, why: str) -> None:
        self.memory.keep(series)
        self._events += series.close(at, why)

    def _drop(self, key: Key, at: float, why: str) -> None:
        """Forget a version with its slices, and its served model with its last version."""
        series = self.whole.pop(key, None)
        if series is None:
            return
        for part in [k for k in self.slices if k.whole == key]:
            self._close_slice(part, at, why)
        if not series.closed:
            self._closed(series, at, why)
        if self.current.get(key.served_model) == key:
            del self.current[key.served_model]
        if all(k.served_model != key.served_model for k in self.whole):
            self._drop_model(key.served_model)

    def _drop_model(self, served_model: str) -> None:
        for known in (self.orders, self.parts, self._weighed, self._leaving):
            known.pop(served_model, None)
