"""Examples of a table: Parquet, JSON lines or CSV."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training.sources import cells, rows
from training.sources.assemble import EVERY_MODEL, assembled, split_by_hash
from training.sources.duplicates import Ids, Repeats
from training.sources.example import Data, Example
from training.split import RESERVED, plain

REQUIRED = ("prompt", "output_tokens")
OPTIONAL = (
    "finish_reason", "model", "id", "draw", "conversation", "prompt_tokens", "split",
)  # fmt: skip


def read_table(
    path: Path, served_model: str | None = None, *, columns: Mapping[str, str] | None = None
) -> Data:
    """Examples of a Parquet, JSON-lines or CSV file, one model's or, with ``*``, of all of them.

    Columns: ``prompt``, ``output_tokens``; optional ``finish_reason`` (``stop`` when absent),
    ``model``, ``id``, ``draw`` (several answers to one prompt may share an id, not a draw),
    ``conversation``, ``prompt_tokens`` and ``split``; ``columns`` names those that the file calls
    otherwise. Without ``split`` a hash decides by the rule of :mod:`training.split`, of the
    conversation or else of the prompt, and what still leaks is dropped
    (:func:`training.sources.without_leaks`); with it, leaks are refused
    (:func:`training.sources.refuse_leaks`). ``served_model`` picks the rows of one model; it is
    needed when the file holds several. A row with neither id nor draw that is the same in all
    these columns as an earlier one counts in ``Data.skipped``. Rows are streamed and nothing is
    written. Raises ``ValueError`` naming the column, and the row where there is one.
    """
    path = Path(path)
    names = _names(columns or {})
    given = None if served_model == EVERY_MODEL else served_model
    ids, found, split_given = Ids(), [], False
    repeats, skipped = Repeats(f"a column {names['id']} or {names['draw']}"), Counter[str]()
    for number, (where, row) in enumerate(rows.read(path, set(names.values())), 1):
        cell = {ours: row.get(name) for ours, name in names.items()}
        example = _example(where, names, cell, given, number)
        if example is None:
            continue
        if not cells.missing(cell["id"]):
            ids.add(where, names["id"], example.model, example.id)
        elif cells.missing(cell["draw"]) and repeats.again(*_told(example)):
            skipped[repeats.reason] += 1
            continue
        split_given |= not cells.missing(cell["split"])
        found.append(example)
    return assembled(
        path.stem,
        path.absolute().as_uri(),
        found,
        where=f"{path}",
        served_model=served_model,
        split_given=split_given,
        skipped=skipped,
    )


def _names(columns: Mapping[str, str]) -> dict[str, str]:
    known = (*REQUIRED, *OPTIONAL)
    if unknown := sorted(set(columns) - set(known)):
        raise ValueError(f"columns.{unknown[0]} is unknown; known are {', '.join(known)}")
    return {ours: columns.get(ours, ours) for ours in known}


def _example(
    where: str,
    names: Mapping[str, str],
    cell: Mapping[str, Any],
    served_model: str | None,
    number: int,
) -> Example | None:
    model = sys.intern(_word(cell["model"]) or served_model or "default")
    if served_model is not None and model != served_model:
        return None
    prompt = cells.text(where, names["prompt"], cell["prompt"])
    conversation = _word(cell["conversation"])
    split = (
        split_by_hash(prompt, conversation)
        if cells.missing(cell["split"])
        else cells.split(where, names["split"], cell["split"])
    )
    tokens = cells.count(where, names["output_tokens"], cell["output_tokens"])
    finish = cells.reason(where, names["finish_reason"], cell["finish_reason"])
    if split == RESERVED:
        return None
    length = cell["prompt_tokens"]
    draw = _word(cell["draw"])
    return Example(
        prompt,
        tokens,
        finish,
        model,
        id=(_word(cell["id"]) or f"row-{number}") + (f"/{draw}" if draw else ""),
        split=split,
        prompt_tokens=(
            0 if cells.missing(length) else cells.count(where, names["prompt_tokens"], length)
        ),
        conversation=conversation,
    )


def _told(e: Example) -> tuple[str | int, ...]:
    """What a row says besides its id. Of its split as well: the same row on two sides is a leak."""
    return (
        *(plain(e.prompt), e.model, e.output_tokens, e.finish_reason),
        *(e.split, e.prompt_tokens, e.conversation),
    )


def _word(value: Any) -> str:
    return "" if cells.missing(value) else str(value)
