"""Prompts on disk, only while an operator wants them: what retraining joins with outcomes.

Off unless ``shortfirst serve --retain-prompts DAYS`` is given. One SQLite file beside the outcomes,
readable by its owner alone, bounded by age, by rows and by bytes; what is deleted is overwritten,
and a minute later at most its log is emptied, too.
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from drift import database

_VERSION = 1
_DAY_S = 86_400.0
_MODE = 0o600
#: How often the log is emptied of what was deleted, and how long a reader may hold that up.
EMPTY_EVERY_S = 60.0
_EMPTY_WAIT_S = 1.0
_SCHEMA = """
CREATE TABLE prompts (
  seq INTEGER PRIMARY KEY,
  request_id TEXT NOT NULL UNIQUE,
  served_model TEXT NOT NULL,
  tenant TEXT NOT NULL,
  at REAL NOT NULL,
  bytes INTEGER NOT NULL,
  prompt BLOB NOT NULL
);
CREATE INDEX prompts_by_time ON prompts (at, seq, bytes);
CREATE TABLE held (prompts INTEGER NOT NULL, bytes INTEGER NOT NULL);
INSERT INTO held VALUES (0, 0)
"""
_INSERT = (
    "INSERT INTO prompts (request_id, served_model, tenant, at, bytes, prompt) "
    "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (request_id) DO NOTHING"
)


@dataclass(frozen=True, slots=True)
class RetentionConfig:
    """How much is kept: prompts of the last ``days``, the newest ``prompts`` of them, and no more
    than ``bytes`` of text; one prompt of more than ``prompt_bytes`` is not kept.

    ``waiting`` prompts, or ``waiting_bytes`` of them, may wait for the disk; further ones are
    dropped. Raises ``ValueError`` for a bound that is none.
    """

    days: float
    prompts: int = 500_000
    bytes: int = 2 << 30
    prompt_bytes: int = 4 << 20
    waiting: int = 4096
    waiting_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if not 0.0 < self.days <= 3650.0:
            raise ValueError(
                f"retention.days must lie above 0 and at most 3650, got {self.days}; to keep no "
                f"prompts leave --retain-prompts away"
            )
        for name in ("prompts", "bytes", "prompt_bytes", "waiting", "waiting_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"retention.{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one request asked, at Unix second ``at``."""

    request_id: str
    served_model: str
    text: str = field(repr=False)
    at: float
    tenant: str = ""


class Kept(NamedTuple):
    """What one :meth:`PromptStore.put` did: ``new`` prompts, of ids not known before; ``oversize``
    ones that were too large to keep; and ``deleted`` older ones that had to go."""

    new: int
    oversize: int
    deleted: int


class PromptStore:
    """Prompts by request id: the first of an id stays, later ones change nothing.

    Any text can be kept, lone surrogates and NUL characters too. Safe for several threads and
    processes.
    """

    def __init__(self, path: Path, config: RetentionConfig) -> None:
        """Open or make the store, for its owner's eyes alone. Raises ``ValueError`` when ``path``
        is something else, or was written by a newer shortfirst, and ``OSError``."""
        self.path = path
        self._config = config
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        # Before SQLite opens it, so that at no moment others can: its log takes the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, _MODE))
        path.chmod(_MODE)
        self._db = _opened(path)
        # What an earlier process deleted may be in its log still.
        self._stale, self._emptied = True, -math.inf

    def put(self, prompts: Iterable[Prompt], now: float) -> Kept:
        """Keep ``prompts`` in one transaction, and delete what is over a bound at Unix second
        ``now``, oldest first. Raises ``sqlite3.Error``, and then nothing has changed."""
        new = oversize = 0
        with self._lock, database.transaction(self._db):
            added = 0
            for prompt in prompts:
                text = _bytes(prompt.text)
                if len(text) > self._config.prompt_bytes:
                    oversize += 1
                elif self._db.execute(_INSERT, _row(prompt, text)).rowcount == 1:
                    new, added = new + 1, added + len(text)
            self._count(new, added)
            deleted = self._prune(now)
        self._deleted(deleted, now)
        return Kept(new, oversize, deleted)

    def prune(self, now: float) -> int:
        """Delete what is over a bound at Unix second ``now``; return how many prompts went."""
        with self._lock, database.transaction(self._db):
            deleted = self._prune(now)
        self._deleted(deleted, now)
        return deleted

    @property
    def stale(self) -> bool:
        """Whether the log may still hold what was deleted: call :meth:`prune` within a minute."""
        return self._stale

    def __len__(self) -> int:
        return self._held()[0]

    @property
    def bytes(self) -> int:
        """Bytes of text that are kept."""
        return self._held()[1]

    def close(self) -> None:
        """Empty the log of what was deleted, and close the file. Closing twice is harmless."""
        with self._lock:
            # It was closed before, or the disk is in trouble: the next start empties it.
            with suppress(sqlite3.Error):
                if self._stale:
                    self._stale = not _emptied(self._db, _EMPTY_WAIT_S)
            self._db.close()

    def _deleted(self, count: int, now: float) -> None:
        """Deleted text is zeros in the file, and as it was in the log until that is emptied.

        Not each time: a full store deletes with every put.
        """
        with self._lock:
            self._stale = self._stale or count > 0
            if self._stale and not 0.0 <= now - self._emptied < EMPTY_EVERY_S:
                self._emptied = now
                with suppress(sqlite3.Error):  # what was put is on disk: this is tried again
                    self._stale = not _emptied(self._db, _EMPTY_WAIT_S)

    def _held(self) -> tuple[int, int]:
        with self._lock:
            prompts, size = self._db.execute("SELECT prompts, bytes FROM held").fetchone()
        return int(prompts), int(size)

    def _count(self, prompts: int, size: int) -> None:
        """In the transaction that adds or deletes them, so that the bounds cost no scan."""
        self._db.execute("UPDATE held SET prompts = prompts + ?, bytes = bytes + ?",
                         (prompts, size))  # fmt: skip

    def _prune(self, now: float) -> int:
        prompts, size = self._db.execute("SELECT prompts, bytes FROM held").fetchone()
        oldest = now - self._config.days * _DAY_S
        gone: list[tuple[int, int]] = []
        for seq, at, length in self._db.execute("SELECT seq, at, bytes FROM prompts "
                                                "ORDER BY at, seq"):  # fmt: skip
            over = prompts > self._config.prompts or size > self._config.bytes
            if at >= oldest and not over:
                break
            gone.append((seq, length))
            prompts, size = prompts - 1, size - length
        self._db.executemany("DELETE FROM prompts WHERE seq = ?", ((seq,) for seq, _ in gone))
        if gone:
            self._count(-len(gone), -sum(length for _, length in gone))
        return len(gone)


def forget(
    path: Path,
    *,
    before: float | None = None,
    tenant: str | None = None,
    wait_s: float = 30.0,
) -> int:
    """Delete prompts from the store at ``path``; return how many: those from before Unix second
    ``before``, those of ``tenant``, or, without either, all.

    They are overwritten in the file, and its log is emptied, for which readers are given
    ``wait_s`` seconds to end. A service may go on writing meanwhile. Raises ``ValueError`` when
    there is no store, and when prompts were deleted but somebody reads on, so that their text is
    still in the log.
    """
    if not path.is_file():
        raise ValueError(f"no prompts at {path}: none were retained")
    where, values = ["1"], list[object]()
    for condition, value in (("at < ?", before), ("tenant = ?", tenant)):
        if value is not None:
            where.append(condition)
            values.append(value)
    chosen = " AND ".join(where)
    db = _opened(path)
    try:
        with database.transaction(db):
            count, size = db.execute(
                f"SELECT count(*), coalesce(sum(bytes), 0) FROM prompts WHERE {chosen}", values
            ).fetchone()
            db.execute(f"DELETE FROM prompts WHERE {chosen}", values)
            db.execute("UPDATE held SET prompts = prompts - ?, bytes = bytes - ?", (count, size))
        emptied = _emptied(db, wait_s)
    finally:
        db.close()
    if not emptied:
        raise ValueError(
            f"{int(count):,} prompts were deleted, but {path.name}-wal may still hold their text, "
            f"for another process is reading the store: do it again when that has ended"
        )
    return int(count)


def _emptied(db: sqlite3.Connection, wait_s: float) -> bool:
    """Whether the log went into the file and has no bytes now; a reader may be in the way."""
    (before,) = db.execute("PRAGMA busy_timeout").fetchone()
    db.execute(f"PRAGMA busy_timeout = {int(wait_s * 1000.0)}")
    try:
        busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        db.execute(f"PRAGMA busy_timeout = {before}")
    return not busy


def _opened(path: Path) -> sqlite3.Connection:
    db = database.opened(path, "is not a store of prompts", _VERSION, _SCHEMA)
    try:
        # What is deleted is overwritten with zeros, not only unlinked (sqlite.org/pragma.html).
        db.execute("PRAGMA secure_delete = ON")
        if not _is_ours(db):
            raise ValueError(f"{path} is not a store of prompts; choose another file")
    except BaseException:
        db.close()
        raise
    return db


def _is_ours(db: sqlite3.Connection) -> bool:
    """The stores beside it have formats of the same number."""
    found = db.execute("SELECT count(*) FROM sqlite_master WHERE name IN ('prompts', 'held')")
    return bool(found.fetchone()[0] == 2)


def _row(prompt: Prompt, text: bytes) -> Sequence[object]:
    names = (_known(name) for name in (prompt.request_id, prompt.served_model, prompt.tenant))
    return (*names, prompt.at, len(text), text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _known(name: str) -> str:
    """SQLite takes no lone surrogates in names; over gRPC none can come."""
    return name.encode("utf-8", "replace").decode()
