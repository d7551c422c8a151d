"""Realised lengths on disk: SQLite, durable before acknowledged, no prompt text."""

from __future__ import annotations

import json
import sqlite3
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from drift import database
from ranker.types import FinishReason, Forecast, Outcome

_VERSION = 1

_SCHEMA = """
CREATE TABLE outcomes (
  seq INTEGER PRIMARY KEY,
  request_id TEXT NOT NULL UNIQUE,
  served_model TEXT NOT NULL,
  output_tokens INTEGER NOT NULL,
  finish_reason TEXT NOT NULL,
  arrival REAL NOT NULL,
  finished REAL NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  lane TEXT NOT NULL,
  ranker TEXT,
  version TEXT,
  score REAL,
  levels TEXT,
  quantiles TEXT,
  novelty REAL,
  sketch BLOB
);
CREATE INDEX outcomes_by_arrival ON outcomes (served_model, arrival, seq);
"""

_COLUMNS = (
    "request_id, served_model, output_tokens, finish_reason, arrival, finished, prompt_tokens, "
    "tenant, lane, ranker, version, score, levels, quantiles, novelty, sketch"
)
_INSERT = (
    f"INSERT INTO outcomes ({_COLUMNS}) VALUES ({', '.join('?' * 16)}) "
    "ON CONFLICT (request_id) DO NOTHING"
)
#: Numbers ascend without gaps at the new end: the newest one counts all that were ever stored.
_PRUNE = """
DELETE FROM outcomes WHERE seq IN (
  SELECT seq FROM (SELECT seq, finished FROM outcomes ORDER BY seq LIMIT ?)
  WHERE (? > 0 AND seq <= (SELECT max(seq) FROM outcomes) - ? OR finished < ?)
    AND seq <= (SELECT max(seq) FROM outcomes) - ?
)
"""
_FIRST = "SELECT served_model, output_tokens, finish_reason FROM outcomes WHERE request_id = ?"


@dataclass(frozen=True, slots=True)
class Stored:
    """``new`` outcomes in order; ``duplicates`` were known, and ``conflicts`` of those were first
    reported with another length, end or model. What was first stays."""

    new: list[Outcome]
    duplicates: int
    conflicts: int


class OutcomeStore:
    """Outcomes by request id: the first report of an id counts, later ones change nothing.

    Ids are unique across the whole store, whatever the served model, tenant or engine: a re-used
    one is taken for a retry, because a report that got no answer is sent again.

    Safe for several threads, and for readers in other processes while one process writes.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        """Open or make the store. Raises ``ValueError`` when ``path`` isn't one, or is missing and
        ``create`` is false, or was written by a newer shortfirst."""
        if not create and not path.exists():
            raise ValueError(f"no outcomes at {path}: nothing has been reported yet")
        self.path = path
        self._lock = threading.Lock()
        self._db = database.opened(
            path, "is not a store of outcomes", _VERSION, _SCHEMA, _add_columns
        )

    def put(self, outcomes: Sequence[Outcome]) -> Stored:
        """Store ``outcomes`` in one transaction; say which were new.

        When this returns they are on disk; when it raises (``sqlite3.Error``) none of them is.
        """
        new: list[Outcome] = []
        conflicts = 0
        with self._lock, database.transaction(self._db):
            for outcome in outcomes:
                if self._db.execute(_INSERT, _row(outcome)).rowcount == 1:
                    new.append(outcome)
                else:
                    first = self._db.execute(_FIRST, (outcome.request_id,)).fetchone()
                    conflicts += first != (
                        outcome.served_model,
                        outcome.output_tokens,
                        str(outcome.finish_reason),
                    )
        return Stored(new, len(outcomes) - len(new), conflicts)

    def store(self, outcomes: Sequence[Outcome]) -> tuple[int, int]:
        """:meth:`put`; return how many were new and how many were known."""
        stored = self.put(outcomes)
        return len(stored.new), stored.duplicates

    def __len__(self) -> int:
        with self._lock:
            (count,) = self._db.execute("SELECT count(*) FROM outcomes").fetchone()
        return int(count)

    @property
    def ever(self) -> int:
        """How many were stored since it was made, deleted ones too; O(log n)."""
        with self._lock:
            (newest,) = self._db.execute("SELECT max(seq) FROM outcomes").fetchone()
        return int(newest or 0)

    def prune(self, before: float, rows: int, least: int, batch: int) -> int:
        """Delete, of the oldest ``batch`` stored, those that finished before Unix second ``before``
        or are more than ``rows`` (0: no limit), but none of the newest ``least``; how many went.

        Call it until it gives 0: each call holds up writers for some milliseconds only. An id that
        is gone is new when it is reported again.
        """
        with self._lock, database.transaction(self._db):
            return self._db.execute(_PRUNE, (batch, rows, rows, before, least)).rowcount

    def by_arrival(
        self, served_model: str | None = None, last: int | None = None
    ) -> Iterator[Outcome]:
        """Outcomes by ascending arrival, of one served model or all; the ``last`` ones only."""
        yield from self._read(served_model, last, "arrival", "arrival, seq")

    def by_report(self, last: int | None = None) -> Iterator[Outcome]:
        """Outcomes in the order in which they were stored; the ``last`` ones only."""
        yield from self._read(None, last, "seq", "seq")

    def _read(
        self, served_model: str | None, last: int | None, key: str, order: str
    ) -> Iterator[Outcome]:
        where, values = ("WHERE served_model = ?", [served_model]) if served_model else ("", [])
        query = f"SELECT seq, {_COLUMNS} FROM outcomes {where} ORDER BY {order}"
        if last is not None:
            newest = f"SELECT seq, {_COLUMNS} FROM outcomes {where}"
            newest += f" ORDER BY {key} DESC, seq DESC LIMIT {int(last)}"
            query = f"SELECT * FROM ({newest}) ORDER BY {order}"
        # A connection of its own: a long read neither blocks writers nor sees half a batch.
        with closing(sqlite3.connect(self.path, timeout=30.0)) as db:
            for row in db.execute(query, values):
                yield _outcome(row[1:])

    def close(self) -> None:
        """Close the file. Closing twice is harmless."""
        with self._lock:
            self._db.close()


@lru_cache(maxsize=64)
def _levels(levels: tuple[float, ...]) -> str:
    """Most forecasts share theirs."""
    return json.dumps(levels)


def _packed(sketch: tuple[float, ...]) -> bytes | None:
    """Four bytes each, which hold all of it; little-endian, so that the file may move."""
    return struct.pack(f"<{len(sketch)}f", *sketch) if sketch else None


def _unpacked(stored: bytes | None) -> tuple[float, ...]:
    return struct.unpack(f"<{len(stored) // 4}f", stored) if stored else ()


def _row(o: Outcome) -> tuple[Any, ...]:
    forecast: tuple[Any, ...] = (None,) * 7
    if (f := o.forecast) is not None:
        quantiles = json.dumps(f.quantiles)
        levels, sketch = _levels(f.levels), _packed(f.sketch)
        forecast = (f.ranker, f.version, f.score, levels, quantiles, f.novelty, sketch)
    return (
        o.request_id,
        o.served_model,
        o.output_tokens,
        str(o.finish_reason),
        o.arrival,
        o.finished,
        o.prompt_tokens,
        o.tenant,
        o.lane,
        *forecast,
    )


def _outcome(row: tuple[Any, ...]) -> Outcome:
    ranker, version, score, levels, quantiles, novelty, sketch = row[9:]
    forecast = None
    if score is not None:
        forecast = Forecast(
            score,
            tuple(json.loads(quantiles)),
            ranker,
            version,
            tuple(json.loads(levels)),
            novelty or 0.0,
            sketch=_unpacked(sketch),
        )
    return Outcome(
        request_id=row[0],
        served_model=row[1],
        output_tokens=row[2],
        finish_reason=FinishReason(row[3]),
        arrival=row[4],
        finished=row[5],
        prompt_tokens=row[6],
        forecast=forecast,
        tenant=row[7],
        lane=row[8],
    )


def _add_columns(db: sqlite3.Connection) -> None:
    """To a store older than them. Whoever does not know them can read and write on, so it is no
    other format."""
    known = {name for _, name, *_ in db.execute("PRAGMA table_info(outcomes)")}
    for name, kind in (("novelty", "REAL"), ("sketch", "BLOB")):
        if name not in known:
            db.execute(f"ALTER TABLE outcomes ADD COLUMN {name} {kind}")
