"""What a receiver is told: an alert that fires or is over, or a thing that was done. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from drift.acting.change import CAUTION
from drift.entry import Entry, Slice
from drift.states import State


class Status(StrEnum):
    """``INFO``: something was done (a promotion, an action); no alert begins or ends by it."""

    FIRING = "firing"
    RESOLVED = "resolved"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Notice:
    """``started``: when the slice left what is well, Unix seconds. ``severity``: ``warning`` or
    ``critical``, of an alert that is over the one it had; ``replaces``: the one it had before, when
    it changed. ``entry`` says what happened last."""

    entry: Entry
    status: Status
    severity: str
    started: float
    replaces: str = ""

    @property
    def state(self) -> str:
        """ok, warn, degraded or fcfs; of what was done, its kind."""
        return self.entry.after if self.entry.kind == "state" else self.entry.kind

    @property
    def title(self) -> str:
        """One line: what happened to what."""
        e = self.entry
        what = f"{self._verb} {e.before or '-'} -> {e.after or '-'}"
        if e.kind == "scale":
            what = "lengths changed as a whole"
        elif e.closed:
            what = f"not watched any more (state was {e.before})"
        about = e.served_model if e.label == "all" else f"{e.served_model} ({e.label})"
        return f"shortfirst: forecasts for {about}: {what}"

    @property
    def _verb(self) -> str:
        return "state" if self.entry.kind in ("state", "reference") else self.entry.kind


class Board:
    """The alerts of one receiver: which slices are at ``level`` or beyond, and since when.

    An alert ends when its slice falls below ``level`` or is not watched any more, when another
    ranker is promoted in the place of the one that it is about, or when one that took over has
    learned its reference and is well.
    """

    def __init__(self, level: State = State.WARN) -> None:
        if level is State.OK:
            raise ValueError("level must be warn, degraded or fcfs")
        self._level = level
        self._firing: dict[Slice, Notice] = {}

    @property
    def firing(self) -> tuple[Notice, ...]:
        return tuple(self._firing.values())

    def take(self, entry: Entry) -> list[Notice]:
        """What the receiver should be told; empty when it is nothing to it."""
        if entry.kind == "state":
            return self._state(entry)
        if entry.kind == "reference":
            before = self._firing.get(entry.slice)
            taken_over = before is not None and before.entry.stream != entry.stream
            return self._resolve(entry, entry.slice) if taken_over and entry.after == "ok" else []
        if entry.kind == "action" and entry.cause == CAUTION:
            return []
        over: list[Notice] = []
        if entry.kind in ("promotion", "rollback"):
            for where in [w for w in self._firing if w[0] == entry.served_model]:
                over += self._resolve(entry, where)
        return [*over, Notice(entry, Status.INFO, "info", entry.at)]

    def _state(self, entry: Entry) -> list[Notice]:
        state = State[entry.after.upper()]
        before = self._firing.get(entry.slice)
        if entry.closed and before is not None and before.entry.stream != entry.stream:
            return []  # it fires for the version that took the place of this one
        if state < self._level:
            return self._resolve(entry, entry.slice)
        severity = "warning" if state is State.WARN else "critical"
        notice = Notice(entry, Status.FIRING, severity, entry.at)
        if before is not None:
            changed = before.severity if before.severity != severity else ""
            notice = replace(notice, started=before.started, replaces=changed)
        self._firing[entry.slice] = notice
        return [notice]

    def _resolve(self, entry: Entry, where: Slice) -> list[Notice]:
        before = self._firing.pop(where, None)
        if before is None:
            return []
        _, lane, tenant = where
        about = replace(entry, lane=lane, tenant=tenant)
        return [Notice(about, Status.RESOLVED, before.severity, before.started)]
