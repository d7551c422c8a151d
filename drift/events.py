"""What the monitor says: a change of state, or a reference learned. One JSON object a line."""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from drift.states import State


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


class EventLog:
    """Appends events to a file, one flushed line each; safe from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def append(self, events: Sequence[Event], now: float) -> None:
        """Write ``events``; ``now`` is Unix seconds. Lines are whole or not there at all."""
        if not events:
            return
        lines = "".join(
            json.dumps({"logged": now, **event.as_dict()}, ensure_ascii=False) + "\n"
            for event in events
        ).encode()
        with self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # One write to a file opened for appending, so that two processes don't mix lines.
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(handle, lines)
                os.fsync(handle)
            finally:
                os.close(handle)


def read_events(path: Path) -> Iterator[Event]:
    """Events of a log, oldest first; none when there is no file.

    A last line that was cut off by a crash is passed over; any other that can't be read raises
    ``ValueError`` with its number.
    """
    if not path.exists():
        return
    names = {f.name for f in fields(Event)}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                values = json.loads(line)
                known = {key: value for key, value in values.items() if key in names}
                known["reasons"] = tuple(known["reasons"])
                event = Event(**known)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                if not line.endswith("\n"):
                    return
                raise ValueError(f"{path}, line {number}: not a drift event") from error
            yield event


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value
