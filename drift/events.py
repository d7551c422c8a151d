"""What the monitor says: a change of state, or a reference learned. One JSON object a line.

The log also holds what others did, a line each: those have an ``actor``, see ``drift.entry``.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from drift.rotating import RotatingFile, read_parts
from drift.states import State

log = logging.getLogger(__name__)

#: The cause of a state that is over because its series is not watched any more.
CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that the monitor noticed. Numbers that are not known are ``None``.

    ``kind`` is ``state``, ``reference`` (one was learned) or ``scale`` (lengths changed as a whole,
    whatever their order does). ``at`` is the arrival (Unix seconds) of the outcome that
    caused it and ``outcome`` its number within the stream. ``tau`` with its interval is over the
    ``since_change`` outcomes after the estimated change, or the window when there is none.
    ``lane`` and ``tenant`` are ``None`` where all traffic of the version is meant; ``cause`` (what
    decayed: order, scale, share scored ...) is empty where it isn't known. A ``state`` event of
    cause ``closed`` falls to ``ok`` because the series is not watched any more: its version was
    replaced, its slice lost its place, or nothing came of it for long; ``reasons`` says which.
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
    lane: str | None = None
    tenant: str | None = None
    cause: str = ""

    @property
    def advice(self) -> str:
        """What to do about it, one line; empty when there is nothing to decide."""
        if self.kind == "scale":
            return "recalibrate the quantiles; the order may be as good as ever"
        if self.kind != "state" or self.cause == CLOSED:
            return ""
        return State[self.state.upper()].advice

    @property
    def alert(self) -> bool:
        """True when a state rose to ``degraded`` or beyond: somebody should look."""
        before, after = State[self.previous.upper()], State[self.state.upper()]
        return self.kind == "state" and after > before and after >= State.DEGRADED

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; NaN becomes null."""
        values = {key: _plain(value) for key, value in asdict(self).items()}
        return {**values, "alert": self.alert, "advice": self.advice}


_NAMES = frozenset(f.name for f in fields(Event))


class EventLog:
    """Appends events to a file, one flushed line each; safe from several threads and processes.

    A file of ``max_bytes`` is put aside under the next number, and the last ``keep`` of those stay.
    """

    def __init__(self, path: Path, max_bytes: int = 16 << 20, keep: int = 4) -> None:
        self._file = RotatingFile(path, max_bytes, keep)

    def append(self, events: Sequence[Event], now: float) -> None:
        """Write ``events``; ``now`` is Unix seconds. Returns when they are on disk.

        Raises ``OSError``.
        """
        self.note([event.as_dict() for event in events], now)

    def note(self, lines: Sequence[Mapping[str, Any]], now: float) -> None:
        """Write what else happened: ``lines`` ready for JSON, each with ``at``, ``kind`` and
        ``actor``. The rest as :meth:`append` has it."""
        text = "".join(
            json.dumps({"logged": now, **line}, ensure_ascii=False) + "\n" for line in lines
        )
        if text:
            self._file.append(text.encode(errors="replace"))


def read_events(path: Path) -> Iterator[Event]:
    """Events of the monitor in a log and in what was rotated out of it, oldest first; none when
    there is no file. What others did is in the history.

    A last line without an end is being written, or was cut off by a crash: it is passed over. So
    are other lines that are no events, and their count is logged as a warning at the end.
    """
    for name, content in read_parts(path):
        skipped: list[int] = []
        # A cut may go through a character, and must not make the rest unreadable.
        lines = content.decode(errors="replace").split("\n")
        for number, line in enumerate(lines, start=1):
            event = _event(line)
            if isinstance(event, Event):
                yield event
            elif event is None and line.strip() and number < len(lines):
                skipped.append(number)
        if skipped:
            log.warning(
                "%s: %d lines are no drift events and were passed over, the first is line %d",
                name,
                len(skipped),
                skipped[0],
            )


def _event(line: str) -> Event | str | None:
    """An event; the kind of what somebody else did; ``None`` when it is neither."""
    try:
        values = json.loads(line)
        if "actor" in values:
            return str(values["kind"])
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
