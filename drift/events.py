"""What the monitor says: a change of state, or a reference learned. One JSON object a line."""

from __future__ import annotations

import json
import logging
import math
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from drift.states import State

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that the monitor noticed. Numbers that are not known are ``None``.

    ``kind`` is ``state`` or ``reference``. ``at`` is the arrival (Unix seconds) of the outcome that
    caused it and ``outcome`` its number within the stream. ``tau`` with its interval is over the
    ``since_change`` outcomes after the estimated change, or the window when there is none.
    """

    kind: str
    served_model: str
    ranker: str
    version: str
    at: float
    outcome: int
    previous: str
    state: str
    reasons: tuple[str, ...]
    tau: float | None
    tau_low: float | None
    tau_high: float | None
    tau_outcomes: int
    since_change: int | None
    reference_tau: float | None
    chart: float | None
    chart_limit: float | None
    unscored_share: float
    censored_share: float
    message: str

    @property
    def alert(self) -> bool:
        """True when a state rose to ``degraded`` or beyond: somebody should look."""
        before, after = State[self.previous.upper()], State[self.state.upper()]
        return self.kind == "state" and after > before and after >= State.DEGRADED

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; NaN becomes null."""
        values = {key: _plain(value) for key, value in asdict(self).items()}
        return {**values, "alert": self.alert}


_NAMES = frozenset(f.name for f in fields(Event))


class EventLog:
    """Appends events to a file, one flushed line each; safe from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def append(self, events: Sequence[Event], now: float) -> None:
        """Write ``events``; ``now`` is Unix seconds. Returns when they are on disk.

        Raises ``OSError``. A line that a crash or a full disk cut off is ended first, so that what
        follows stays readable.
        """
        if not events:
            return
        lines = "".join(
            json.dumps({"logged": now, **event.as_dict()}, ensure_ascii=False) + "\n"
            for event in events
        ).encode()
        with self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # One write to a file opened for appending, so that two processes don't mix lines.
            handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                size = os.fstat(handle).st_size
                if size and os.pread(handle, 1, size - 1) != b"\n":
                    lines = b"\n" + lines
                while lines:  # a write may take less than it is given
                    lines = lines[os.write(handle, lines) :]
                os.fsync(handle)
            finally:
                os.close(handle)


def read_events(path: Path) -> Iterator[Event]:
    """Events of a log, oldest first; none when there is no file.

    A last line without an end is being written, or was cut off by a crash: it is passed over. So
    are other lines that are no events, and their count is logged as a warning at the end.
    """
    if not path.exists():
        return
    skipped: list[int] = []
    # A cut may go through a character, and must not make the rest unreadable.
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            event = _event(line)
            if event is not None:
                yield event
            elif line.strip() and line.endswith("\n"):
                skipped.append(number)
    if skipped:
        log.warning(
            "%s: %d lines are no drift events and were passed over, the first is line %d",
            path,
            len(skipped),
            skipped[0],
        )


def _event(line: str) -> Event | None:
    try:
        values = json.loads(line)
        known = {key: value for key, value in values.items() if key in _NAMES}
        known["at"] = float(known["at"])
        known["reasons"] = tuple(known["reasons"])
        event = Event(**known)
        _ = event.alert  # knows the states
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return event


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value
