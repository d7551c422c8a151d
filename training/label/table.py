"""Labels as a table that ``train --data`` and :mod:`training.smollm2` read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from training.label.answer import Label
from training.label.sampling import Sampling

KINDS = (".parquet", ".jsonl")


def rows(
    labels: Iterable[Label], sampling: Sampling, texts: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """One row a label, in the order of split, prompt and draw; refused prompts have none.

    ``texts``: prompts by their keys, when they are to be kept. Raises ``ValueError`` when one is
    missing.
    """
    made = []
    for label in sorted(labels, key=lambda x: (x.split, x.key, x.draw)):
        if label.refused:
            continue
        row = {
            "conversation_id": label.conversation,
            "draw": label.draw,
            "temperature": sampling.temperature,
            "repetition_penalty": sampling.repetition_penalty,
            "prompt_tokens": label.prompt_tokens,
            "output_tokens": label.output_tokens,
            "finish_reason": str(label.finish_reason),
            "split": label.split,
            "id": label.id,
            "model": sampling.model,
            "prompt_hash": label.key,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": label.seed,
        }
        if texts is not None:
            if label.key not in texts:
                raise ValueError(
                    f"the prompt {label.id!r} is no longer there; give the file "
                    f"that was labelled, or do without --keep-prompts"
                )
            row["prompt"] = texts[label.key]
        made.append(row)
    return made


def write(path: Path, table: list[dict[str, Any]]) -> None:
    """Replace ``path`` by ``table``, all of it or nothing; its ending says how it is written.

    Raises ``ValueError`` when the ending is not known or there is nothing to write.
    """
    check(path)
    if not table:
        raise ValueError(f"{path}: no label to write yet")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not mkstemp's: its files are nobody else's to read.
    made = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.Table.from_pylist(table), made, compression="zstd")
        else:
            with made.open("w", encoding="utf-8") as out:
                out.writelines(json.dumps(row) + "\n" for row in table)
        os.replace(made, path)
    finally:
        made.unlink(missing_ok=True)


def check(path: Path, texts: Iterable[str] = ()) -> None:
    """Raises ``ValueError`` for a name that does not say how to write it, or when Parquet has no
    place for one of ``texts``: it holds half of a surrogate pair."""
    if path.suffix not in KINDS:
        raise ValueError(f"{path}: must end in {' or '.join(KINDS)}")
    if path.suffix == ".parquet" and any(map(_halved, texts)):
        raise ValueError(f"{path}: a prompt or id holds half of a surrogate pair; write .jsonl")


def _halved(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
