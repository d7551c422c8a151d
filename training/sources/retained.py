"""Prompts that a rank service retained, as ``shortfirst serve --retain-prompts`` leaves them."""

from __future__ import annotations

from pathlib import Path

from training.sources.stored import opened

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
    with opened(path, "prompts", _FORMAT) as db:
        rows = db.execute(
            "SELECT request_id, prompt FROM prompts WHERE :model IS NULL OR served_model = :model",
            {"model": served_model},
        )
        return {name: bytes(text).decode("utf-8", "surrogatepass") for name, text in rows}
