"""Outcomes in, events out: the drift monitor. No clock, no randomness, no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from drift.arrival import ArrivalOrder
from drift.cohorts import Cohort
from drift.config import MonitorConfig
from drift.events import Event
from drift.key import Key
from drift.reference import Reference
from drift.states import State
from drift.stream import Point, Stream
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where one stream stands. ``held`` and ``late`` are those of its served model.

    ``current`` is false for a ranker version that its served model no longer uses.
    """

    key: Key
    state: State
    outcomes: int
    cohort: Cohort
    reference: Reference | None
    chart: float | None
    held: int
    late: int
    current: bool

    def as_dict(self) -> dict[str, Any]:
        """Flat and JSON-ready but for NaN, which means unknown."""
        cohort = asdict(self.cohort)
        tau = cohort.pop("tau")
        reference = self.reference
        return {
            **asdict(self.key),
            "state": str(self.state),
            "advice": self.state.advice,
            "total_outcomes": self.outcomes,
            "window_outcomes": cohort.pop("outcomes"),
            "window_scored": cohort.pop("scored"),
            "tau": tau["value"],
            "tau_low": tau["low"],
            "tau_high": tau["high"],
            **cohort,
            "reference_tau": reference.tau.value if reference else None,
            "reference_outcomes": reference.outcomes if reference else 0,
            "chart": self.chart,
            "chart_warn": reference.warn_limit if reference else None,
            "chart_degraded": reference.degraded_limit if reference else None,
            "held": self.held,
            "late": self.late,
            "current": self.current,
        }


class Monitor:
    """Watches each served model x ranker version on its own, in arrival order.

    ``references`` holds what is known of a ranker beforehand, by stream; other streams learn theirs
    from their first outcomes. A request without a forecast counts against the ranker version that
    its served model used last. Not safe for several threads at once:
    ``drift.sink`` is.
    """

    def __init__(
        self,
        config: MonitorConfig | None = None,
        references: Mapping[Key, Reference] | None = None,
    ) -> None:
        self._config = config or MonitorConfig()
        self._references = dict(references or {})
        self._orders: dict[str, ArrivalOrder] = {}
        self._current: dict[str, Key] = {}
        self._streams: dict[Key, Stream] = {}

    def update(self, outcome: Outcome) -> list[Event]:
        """Take one completion; events of whatever it released, oldest first."""
        model = outcome.served_model
        if model not in self._orders:
            self._orders[model] = ArrivalOrder(self._config.hold)
        return self._weigh(self._orders[model].push(outcome))

    def flush(self) -> list[Event]:
        """Weigh what is held for order, and look at every stream: at the end of traffic."""
        events: list[Event] = []
        for order in list(self._orders.values()):  # weighing may forget one
            events += self._weigh(order.flush())
        for stream in self._streams.values():
            events += stream.look()
        return events

    def snapshots(self) -> list[Snapshot]:
        """Every stream, the most recently used last."""
        return [self._snapshot(stream) for stream in self._streams.values()]

    def snapshot(self, served_model: str) -> Snapshot | None:
        """The stream that ``served_model`` uses now."""
        key = self._current.get(served_model)
        return self._snapshot(self._streams[key]) if key is not None else None

    def references(self) -> dict[Key, Reference]:
        """What each stream is measured against, where that is known."""
        return {k: s.reference for k, s in self._streams.items() if s.reference is not None}

    def history(self, key: Key) -> tuple[Point, ...]:
        """Looks at the window of one stream, oldest first. Raises ``KeyError`` when unknown."""
        return tuple(self._streams[key].history)

    def recent(self, key: Key) -> tuple[Outcome, ...]:
        """The outcomes in the window of one stream. Raises ``KeyError`` when unknown."""
        return self._streams[key].recent

    def _weigh(self, outcomes: Sequence[Outcome]) -> list[Event]:
        return [event for o in outcomes for event in self._stream(o).update(o)]

    def _stream(self, outcome: Outcome) -> Stream:
        model = outcome.served_model
        if outcome.forecast is not None:
            key = Key(model, outcome.forecast.ranker, outcome.forecast.version)
        else:
            key = self._current.get(model, Key(model, "", ""))
        stream = self._streams.pop(key, None)
        if stream is None:
            stream = Stream(key, self._config, self._references.get(key))
        self._streams[key] = stream  # last in order of use
        if outcome.forecast is not None or model not in self._current:
            self._current[model] = key
            if key.ranker:  # a stream of requests that no ranker had seen yet is over
                self._streams.pop(Key(model, "", ""), None)
        self._forget()
        return stream

    def _forget(self) -> None:
        """Bound memory, whatever names reporters invent: the longest unused stream goes."""
        while len(self._streams) > self._config.streams:
            key = next(iter(self._streams))
            del self._streams[key]
            if self._current.get(key.served_model) == key:
                del self._current[key.served_model]
            if all(k.served_model != key.served_model for k in self._streams):
                del self._orders[key.served_model]

    def _snapshot(self, stream: Stream) -> Snapshot:
        order = self._orders[stream.key.served_model]
        return Snapshot(
            stream.key,
            stream.state,
            stream.outcomes,
            stream.cohort,
            stream.reference,
            stream.chart.value if stream.chart is not None else None,
            order.held,
            order.late,
            self._current.get(stream.key.served_model) == stream.key,
        )
