"""Who did what, when, and on what grounds: changes of state, promotions, actions, in one database.

A SQLite file beside the outcome store. The log of JSON lines says the same of the monitor alone and
is for tools that tail files; this is what ``shortfirst drift history`` reads.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from drift import database
from drift.entry import MONITOR, TEXTS, Entry, Slice
from drift.events import Event

_VERSION = 1
_SCHEMA = """
CREATE TABLE history (
  seq INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  logged REAL NOT NULL,
  at REAL NOT NULL,
  kind TEXT NOT NULL,
  actor TEXT NOT NULL,
  served_model TEXT NOT NULL,
  lane TEXT,
  tenant TEXT,
  ranker TEXT NOT NULL,
  version TEXT NOT NULL,
  before TEXT NOT NULL,
  after TEXT NOT NULL,
  cause TEXT NOT NULL,
  reasons TEXT NOT NULL,
  advice TEXT NOT NULL,
  gate TEXT NOT NULL,
  message TEXT NOT NULL,
  details TEXT NOT NULL
);
CREATE INDEX history_by_time ON history (at, seq);
CREATE INDEX history_by_kind ON history (kind, seq);
"""

_COLUMNS = ("at", *TEXTS, "reasons", "details")


class History:
    """Entries by what they say: one told again (after a crash, or by two commands) counts once.

    The newest ``most`` of each kind stay, so that a state that flaps cannot push promotions out.
    Safe for several threads and processes.
    """

    def __init__(self, path: Path, most: int = 20_000) -> None:
        """Open or make it. Raises ``ValueError`` when ``path`` is something else, or was written by
        a newer shortfirst."""
        if most < 1:
            raise ValueError(f"most must be >= 1, got {most}")
        self.path = path
        self._most = most
        self._lock = threading.Lock()
        self._db = database.opened(path, "is no history", _VERSION, _SCHEMA)

    def add(self, entries: Sequence[Entry], now: float) -> list[Entry]:
        """Write ``entries`` in one transaction; return the new ones. ``now`` is Unix seconds.

        They are on disk when this returns; when it raises (``sqlite3.Error``) none of them is.
        """
        new: list[Entry] = []
        with self._lock, database.transaction(self._db):
            for entry in entries:
                if self._db.execute(_INSERT, _row(entry, now)).rowcount == 1:
                    new.append(entry)
            for kind in {entry.kind for entry in new}:
                self._db.execute(_PRUNE, (kind, kind, self._most))
        return new

    def states(self) -> dict[Slice, Entry]:
        """The last change of state of each slice, by the ranker version that had it last."""
        found: dict[Slice, Entry] = {}
        for entry in self._said("AND kind = 'state'"):
            other = found.get(entry.slice)
            if not (entry.closed and other is not None and other.stream != entry.stream):
                found[entry.slice] = entry
        return found

    def missed(self, replayed: Iterable[Event]) -> list[Entry]:
        """What a crash cut off between an outcome and its event: of the events that stored outcomes
        give when they are weighed again, those later than the last entry of their slice that take
        up where it left off."""
        told: dict[Slice, float] = {}
        state: dict[tuple[str | None, ...], str] = {}
        for entry in self._said():
            told[entry.slice] = entry.at
            state[entry.stream] = entry.after
        found: list[Entry] = []
        for entry in map(Entry.of, replayed):
            if entry.at <= told.get(entry.slice, float("-inf")):
                continue
            if entry.kind != "state" or entry.before == state.get(entry.stream, "ok"):
                found.append(entry)
                state[entry.stream] = entry.after
        return found

    def _said(self, where: str = "") -> list[Entry]:
        """What the monitor said, in the order in which it happened."""
        query = f"SELECT {', '.join(_COLUMNS)} FROM history WHERE actor = ? {where}"
        with self._lock:
            rows = self._db.execute(f"{query} ORDER BY at, seq", (MONITOR,)).fetchall()
        return [_entry(row) for row in rows]

    def close(self) -> None:
        with self._lock:
            self._db.close()


def read_history(
    path: Path, last: int | None = None, kinds: Sequence[str] = (), served_model: str = ""
) -> list[Entry]:
    """The newest ``last`` entries, oldest first; none when there is no file. Changes nothing.

    Raises ``ValueError`` when ``path`` is no history.
    """
    if not path.exists():
        return []
    where, values = ["1"], list[str]()
    if kinds:
        where.append(f"kind IN ({', '.join('?' * len(kinds))})")
        values += kinds
    if served_model:
        where.append("served_model = ?")
        values.append(served_model)
    query = f"SELECT {', '.join(_COLUMNS)} FROM history WHERE {' AND '.join(where)}"
    query += " ORDER BY at DESC, seq DESC"
    if last is not None:
        query += f" LIMIT {int(last)}"
    try:
        with closing(sqlite3.connect(path, timeout=30.0)) as db:
            rows = db.execute(query, values).fetchall()
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{path} is no history: {error}") from error
    return [_entry(row) for row in reversed(rows)]


_INSERT = (
    f"INSERT INTO history (digest, logged, {', '.join(_COLUMNS)}) "
    f"VALUES ({', '.join('?' * (len(_COLUMNS) + 2))}) ON CONFLICT (digest) DO NOTHING"
)
_PRUNE = (
    "DELETE FROM history WHERE kind = ? AND seq <= "
    "(SELECT seq FROM history WHERE kind = ? ORDER BY seq DESC LIMIT 1 OFFSET ?)"
)


def _row(entry: Entry, now: float) -> tuple[Any, ...]:
    texts = [getattr(entry, name) for name in TEXTS]
    reasons = json.dumps(list(entry.reasons), ensure_ascii=False)
    details = json.dumps(dict(entry.details), ensure_ascii=False, allow_nan=False)
    return (entry.digest, now, entry.at, *texts, reasons, details)


def _entry(row: Sequence[Any]) -> Entry:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["reasons"] = tuple(json.loads(values["reasons"]))
    values["details"] = json.loads(values["details"])
    return Entry(**values)
