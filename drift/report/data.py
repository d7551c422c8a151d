"""What the report shows, as plain values. Sections without data are left out of the page."""

from __future__ import annotations

import math
from dataclasses import dataclass

from drift.events import Event
from drift.key import Key
from drift.monitor import Monitor
from drift.reference import Reference
from drift.states import State
from drift.stream import Point
from engine.metrics import Timing
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class PolicyRun:
    """One policy's requests. ``timings`` are finished ones; queue depths are requests waiting."""

    policy: str
    timings: tuple[Timing, ...]
    peak_waiting: int | None = None
    mean_waiting: float | None = None
    utilisation: float | None = None
    tau: float | None = None

    def __post_init__(self) -> None:
        if not self.timings:
            raise ValueError(f"run {self.policy!r} needs at least one finished request")


@dataclass(frozen=True, slots=True)
class DriftSection:
    """The monitor's view of one stream over time.

    ``marks`` are (outcome number, label) of things known from outside, such as when traffic was
    switched.
    """

    key: Key
    state: State
    points: tuple[Point, ...]
    reference: Reference | None
    events: tuple[Event, ...] = ()
    marks: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(
        cls,
        monitor: Monitor,
        served_model: str,
        events: tuple[Event, ...] = (),
        marks: tuple[tuple[int, str], ...] = (),
    ) -> DriftSection:
        """The stream that ``served_model`` uses now, with those of ``events`` that are about it.

        Raises ``ValueError`` when the monitor has seen no outcome of it.
        """
        snapshot = monitor.snapshot(served_model)
        if snapshot is None:
            raise ValueError(f"no outcomes of served model {served_model!r} have been weighed")
        key = snapshot.key
        own = tuple(e for e in events if Key(e.served_model, e.ranker, e.version) == key)
        points = monitor.history(key)
        return cls(key, snapshot.state, points, snapshot.reference, own, marks)


@dataclass(frozen=True, slots=True)
class EfficiencyRow:
    """SJF efficiency of one cohort: 1 is an oracle, 0 is FCFS, below 0 is worse than FCFS."""

    label: str
    e2el: float
    per_token: float
    tau: float = math.nan


@dataclass(frozen=True, slots=True)
class Fact:
    """One number at the top of the page. ``note`` says what it means, in a few words."""

    value: str
    label: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.title!r}: {len(row)} cells under {len(self.columns)} columns"
                )


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything on the page. ``runs[0]`` is the baseline that ratios refer to.

    ``outcomes`` are scored ones of one ranker, before any drift: they show the forecast against
    what came true. ``created`` is text. ``facts`` come before those that the page works out.
    """

    title: str
    subtitle: str
    created: str
    runs: tuple[PolicyRun, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    drift: tuple[DriftSection, ...] = ()
    efficiency: tuple[EfficiencyRow, ...] = ()
    tables: tuple[Table, ...] = ()
    facts: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()
