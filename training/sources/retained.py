"""Prompts that a rank service retained, as ``shortfirst serve --retain-prompts`` leaves them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

#: What a store of them ends in; other files of prompts are tables.
SUFFIXES = (".db", ".sqlite", ".sqlite3")
_FORMAT = 1


def read_retained(path: Path, served_model: str | None = None) -> dict[str, str]:
    """Prompts by request id, of one served model or of all. The store is only read.

    Raises ``ValueError`` when there is no store at ``path``, naming what to do about it.
    """
    if not path.is_file():
        raise ValueError(
            f"{path}: no prompts were retained, and outcomes hold none, so there is nothing to "
            f"train on. Start the rank service with shortfirst serve --retain-prompts DAYS and "
            f"wait for traffic, or give your own prompts by request id with --prompts"
        )
    with _opened(path) as db:
        rows = db.execute(
            "SELECT request_id, prompt FROM prompts WHERE :model IS NULL OR served_model = :model",
            {"model": served_model},
        )
        return {name: bytes(text).decode("utf-8", "surrogatepass") for name, text in rows}


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version != _FORMAT:
                raise ValueError(f"{path}: has format {version} of prompts, not {_FORMAT}")
            yield db
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{path}: not a store of prompts ({error})") from None
