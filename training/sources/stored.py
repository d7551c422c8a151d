"""Stores that a rank service writes, read from outside: SQLite files of a format of ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def opened(store: Path, what: str, version: int) -> Iterator[sqlite3.Connection]:
    """``store``, a file of ``what`` in format ``version``, to be read only, also while others write
    to it. Raises ``ValueError``, in the block too, when it is something else."""
    try:
        with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)) as db:
            (found,) = db.execute("PRAGMA user_version").fetchone()
            if found != version:
                raise ValueError(f"{store}: has format {found} of {what}, not {version}")
            yield db
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{store}: not a store of {what} ({error})") from None
