"""SQLite files that are durable when they say so: how one is opened and written to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def opened(
    path: Path,
    refusal: str,
    version: int,
    schema: str,
    upgrade: Callable[[sqlite3.Connection], None] = lambda db: None,
) -> sqlite3.Connection:
    """The database at ``path``, made with ``schema`` when it is not there; its folder too.

    A file of this ``version`` or an older one is given to ``upgrade``. The connection may be used
    by any thread, one at a time. Raises ``ValueError`` when the file is something else, in the
    words of ``refusal`` ("is no history"), or was written by a newer shortfirst.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Transactions are written out; the module's implicit ones hide when they commit.
    try:
        db = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
    except sqlite3.OperationalError as error:
        raise ValueError(f"{path} {refusal}: {error}") from error
    try:
        db.execute("PRAGMA journal_mode = WAL")
        # FULL: a commit returns when the log has reached the disk, not when it was handed over.
        db.execute("PRAGMA synchronous = FULL")
        with transaction(db):
            _prepare(db, path, version, schema, upgrade)
    except sqlite3.DatabaseError as error:
        db.close()
        raise ValueError(f"{path} {refusal}: {error}") from error
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All of the block is on disk after it, or, when it raises, nothing of it is."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _prepare(
    db: sqlite3.Connection,
    path: Path,
    version: int,
    schema: str,
    upgrade: Callable[[sqlite3.Connection], None],
) -> None:
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if found == 0:
        for statement in filter(str.strip, schema.split(";")):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {version}")
    elif found > version:
        raise ValueError(
            f"{path} has format {found}, this shortfirst knows {version}: upgrade shortfirst or "
            f"choose another file"
        )
    else:
        upgrade(db)
