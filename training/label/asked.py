"""Where the prompts to label come from."""

from __future__ import annotations

from pathlib import Path

from training.label.prompts import Prompt
from training.sharegpt import ShareGpt
from training.sources import cells, rows
from training.sources.assemble import split_by_hash
from training.split import RESERVED

_COLUMNS = ("prompt", "id", "conversation", "split")


def of_sharegpt(sharegpt: ShareGpt) -> list[Prompt]:
    """What opens a conversation, by the conversation's id."""
    return [
        Prompt(turn.prompt, turn.conversation_id, turn.conversation_id, turn.split)
        for turn in sharegpt.first
    ]


def of_table(path: Path) -> list[Prompt]:
    """The column ``prompt`` of a Parquet, JSON-lines or CSV file.

    Optional columns: ``id`` (the row's number when absent), ``conversation`` and ``split``; without
    it a hash decides, as in :func:`training.sources.read_table`, and reserved rows are left out.
    Raises ``ValueError`` naming the row and the column, and when prompts that differ share an id.
    """
    found: list[Prompt] = []
    owners: dict[str, str] = {}
    for number, (where, row) in enumerate(rows.read(path, _COLUMNS), 1):
        text = cells.text(where, "prompt", row.get("prompt"))
        name, conversation, split = (row.get(column) for column in _COLUMNS[1:])
        conversation = "" if cells.missing(conversation) else str(conversation)
        name = f"row-{number}" if cells.missing(name) else str(name)
        split = (
            split_by_hash(text, conversation)
            if cells.missing(split)
            else cells.split(where, "split", split)
        )
        prompt = Prompt(text, name, conversation or name, split)
        if owners.setdefault(name, prompt.key) != prompt.key:
            raise ValueError(f"{where}: column id repeats that of another prompt")
        if split != RESERVED:
            found.append(prompt)
    if not found:
        raise ValueError(f"{path}: no prompt, a fifth of them being reserved")
    return found
