"""What a dashboard shows, as one value ready for JSON: the contract between monitor and page.

``MonitoredStore.board()`` gives a :class:`Board`; ``board.as_dict()`` is what the page gets. The
figures it is made of stand in ``drift.figures``. A field that is not known is ``None`` and not left
out. New fields may come; none changes its meaning within one ``schema``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from drift.figures import (
    Band,
    Density,
    Faults,
    Interval,
    Level,
    Past,
    Point,
    ReporterRow,
    Series,
    Shift,
    Version,
    Worth,
)
from drift.key import Key
from drift.rows import past, point, series, version, worths
from drift.snapshot import Snapshot
from drift.states import State
from drift.survivors import Survival
from drift.valuer import Values
from drift.view import View

__all__ = [
    "SCHEMA",
    "Band",
    "Board",
    "Density",
    "Faults",
    "Headline",
    "Interval",
    "Level",
    "ModelBoard",
    "Past",
    "Point",
    "ReporterRow",
    "Series",
    "Shift",
    "Version",
    "Worth",
    "board",
    "series",
]

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Headline:
    """The worst state there is, and what it means in words. ``served_model`` is empty when there
    are no outcomes at all; ``state`` then is ``ok``."""

    state: str
    served_model: str
    words: str
    advice: str


@dataclass(frozen=True, slots=True)
class ModelBoard:
    """One served model with the ranker version that it uses now.

    ``overall`` is the version as a whole. ``slices``: by lane and tenant, most harm first; empty
    when all traffic is one slice. ``history``: oldest first. ``worth``: replays, oldest first.
    ``open``: requests known to be under way; ``held``: outcomes waiting for their place in order;
    ``late``: those that had missed it.
    ``survival``: what is wrong with what is reported against what was ranked, in words; empty when
    nothing is known to be.
    """

    served_model: str
    ranker: str
    version: str
    state: str
    meaning: str
    advice: str
    overall: Series
    slices: tuple[Series, ...]
    history: tuple[Point, ...]
    worth: tuple[Worth, ...]
    past: tuple[Past, ...]
    calibration: tuple[Level, ...]
    bands: tuple[Band, ...]
    density: Density
    shifts: tuple[Shift, ...]
    versions: tuple[Version, ...]
    open: int
    held: int
    late: int
    survival: str


@dataclass(frozen=True, slots=True)
class Board:
    """Everything, at ``at`` (Unix seconds). ``models``: the worst first."""

    schema: int
    at: float
    headline: Headline
    models: tuple[ModelBoard, ...]
    reporters: tuple[ReporterRow, ...]
    faults: Faults

    def as_dict(self) -> dict[str, Any]:
        """Nested dictionaries and lists of strings, numbers and ``None``: strict JSON."""
        return asdict(self)


def board(
    view: View,
    values: Values,
    at: float,
    reporters: Sequence[ReporterRow] = (),
    faults: Faults | None = None,
    survival: Mapping[Key, Survival | None] | None = None,
) -> Board:
    """All that is known at Unix second ``at``; some 10 ms a served model."""
    models = []
    wholes = view.snapshots()  # once: each is measured anew
    for snapshot in wholes:
        if snapshot.current:
            found = (survival or {}).get(snapshot.key)
            words = found.words if found is not None else ""
            versions = [s for s in wholes if s.key.served_model == snapshot.key.served_model]
            models.append(_model(view, values, snapshot, versions, words))
    models.sort(key=lambda m: (State[m.state.upper()], m.overall.harm), reverse=True)
    return Board(SCHEMA, at, _headline(models), tuple(models), tuple(reporters), faults or Faults())


def _model(
    view: View,
    values: Values,
    snapshot: Snapshot,
    versions: Sequence[Snapshot],
    survival: str,
) -> ModelBoard:
    key = snapshot.key
    slices = [series(s, view, values) for s in view.slices(key.served_model)]
    slices.sort(key=lambda row: row.harm, reverse=True)
    detail = view.detail(key)
    return ModelBoard(
        served_model=key.served_model,
        ranker=key.ranker,
        version=key.version,
        state=str(snapshot.state),
        meaning=_MEANING[snapshot.state],
        advice=snapshot.state.advice,
        overall=series(snapshot, view, values),
        slices=tuple(slices),
        history=tuple(point(look) for look in view.history(key)),
        worth=worths(values, key),
        past=past(view, values, versions),
        calibration=detail.calibration,
        bands=detail.bands,
        density=detail.density,
        shifts=view.shifts(key),
        versions=tuple(version(s, view) for s in versions if s.key.ranker),
        open=snapshot.open,
        held=snapshot.held,
        late=snapshot.late,
        survival=survival,
    )


def _headline(models: Sequence[ModelBoard]) -> Headline:
    if not models:
        return Headline(str(State.OK), "", "No outcomes have been reported yet.", "")
    worst = models[0]
    hurt = [row for row in worst.slices if State[row.state.upper()] > State[worst.state.upper()]]
    words = f"{worst.served_model}: {worst.meaning}"
    if hurt:
        words += f" Worse for {hurt[0].label}: {hurt[0].state}."
    return Headline(worst.state, worst.served_model, words, worst.advice)


_MEANING = {
    State.OK: "Forecasts order requests as well as they did when they were last known to be good.",
    State.WARN: "Forecasts may be losing their order; it could still be chance.",
    State.DEGRADED: "Forecasts order requests clearly worse than they did: short ones wait again.",
    State.FCFS: "Forecasts order requests no better than arrival does: this is first come, first"
    " served.",
}
