"""A monitor at one moment: taken in a moment, and worked out when nobody waits for the monitor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from drift.cohorts import measure
from drift.detail import Detail, shifts
from drift.features import Baselines
from drift.figures import Shift
from drift.key import Key
from drift.reference import Reference
from drift.snapshot import Snapshot
from drift.states import State
from drift.stream import Point
from ranker.types import Outcome

_Value = TypeVar("_Value")

#: What was worked out of a window: by series and name, with the mark of the window.
Worked = dict[tuple[Key, str], tuple[object, Any]]


@dataclass(frozen=True, slots=True)
class Seen:
    """One series. ``mark`` is another when its window is; the rest as in
    :class:`drift.snapshot.Snapshot`."""

    key: Key
    state: State
    outcomes: int
    recent: tuple[Outcome, ...]
    history: tuple[Point, ...]
    reference: Reference | None
    baselines: Baselines | None
    chart: float | None
    span: tuple[float, float]
    mark: object
    held: int
    late: int
    open: int
    bounds: int
    settled: int
    traffic: float
    current: bool

    def snapshot(self, confidence: float) -> Snapshot:
        """With the statistics of the window; some milliseconds."""
        return Snapshot(
            key=self.key,
            state=self.state,
            outcomes=self.outcomes,
            cohort=measure(self.recent, confidence),
            reference=self.reference,
            chart=self.chart,
            held=self.held,
            late=self.late,
            current=self.current,
            open=self.open,
            bounds=self.bounds,
            settled=self.settled,
            traffic=self.traffic,
        )


class View:
    """``worked`` holds what an earlier view worked out of windows that are the same still; it is
    brought up to date. Not safe for several threads, but for one that changes the monitor."""

    def __init__(
        self, seen: Iterable[Seen], confidence: float, worked: Worked | None = None
    ) -> None:
        self._seen = {one.key: one for one in seen}
        self._confidence = confidence
        self._worked: Worked = {} if worked is None else worked
        for key, what in [k for k in self._worked if k[0] not in self._seen]:
            del self._worked[key, what]

    def snapshots(self) -> list[Snapshot]:
        """Every ranker version as a whole, the most recently used last."""
        return [self._snapshot(seen) for seen in self._seen.values() if not seen.key.sliced]

    def slices(self, served_model: str) -> list[Snapshot]:
        """The slices of the ranker version that ``served_model`` uses now."""
        return [
            self._snapshot(seen)
            for key, seen in self._seen.items()
            if key.sliced and key.served_model == served_model and seen.current
        ]

    def history(self, key: Key) -> tuple[Point, ...]:
        """Looks at the window of one series, oldest first. Raises ``KeyError`` when unknown."""
        return self._seen[key].history

    def span(self, key: Key) -> tuple[float, float]:
        """First and last arrival of one series. Raises ``KeyError`` when unknown."""
        return self._seen[key].span

    def detail(self, key: Key) -> Detail:
        """The window of one series in depth. Raises ``KeyError`` when unknown."""
        seen = self._seen[key]
        return self._once(seen, "detail", lambda: Detail.of(seen.recent))

    def shifts(self, key: Key) -> tuple[Shift, ...]:
        """The window of one series against its reference. Raises ``KeyError`` when unknown."""
        seen = self._seen[key]
        return self._once(seen, "shifts", lambda: shifts(seen.recent, seen.baselines))

    def _snapshot(self, seen: Seen) -> Snapshot:
        return seen.snapshot(self._confidence)

    def _once(self, seen: Seen, what: str, work: Callable[[], _Value]) -> _Value:
        known = self._worked.get((seen.key, what))
        if known is None or known[0] != seen.mark:
            known = self._worked[seen.key, what] = seen.mark, work()
        return cast(_Value, known[1])
