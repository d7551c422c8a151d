"""Prompts and realised lengths of other services, from a Parquet file that is not shipped."""

from __future__ import annotations

from pathlib import Path

from ranker.types import FinishReason
from training.sources import Example

_COLUMNS = ["id", "source", "model", "prompt", "prompt_tokens", "response_tokens"]


def load(path: Path, source: str) -> list[Example]:
    """Rows of ``source`` in the file's order, all as test examples: nothing here was trained on.

    Columns: ``id, source, model, prompt, prompt_tokens, response_tokens``. Raises ``ValueError``
    when a column or the source is missing.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=_COLUMNS, filters=[("source", "=", source)])
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: needs the columns {', '.join(_COLUMNS)} ({error})") from None
    if not table.num_rows:
        raise ValueError(f"{path}: source {source!r} has no rows")
    return [
        Example(
            prompt=row["prompt"],
            output_tokens=int(row["response_tokens"]),
            finish_reason=FinishReason.STOP,
            model=row["model"],
            id=str(row["id"]),
            split="test",
            prompt_tokens=int(row["prompt_tokens"]),
        )
        for row in table.to_pylist()
        if row["prompt"].strip()
    ]
