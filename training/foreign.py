"""Prompts and realised lengths of other services, from a Parquet file that is not shipped."""

from __future__ import annotations

from pathlib import Path

from ranker.types import FinishReason
from training.sources import Example

_COLUMNS = ["id", "source", "model", "prompt", "prompt_tokens", "response_tokens"]


def load(path: Path, source: str, *, own_splits: bool = False) -> list[Example]:
    """Rows of ``source`` in the file's order, all as test examples: nothing here was trained on.

    With ``own_splits`` they keep those of the file, for a ranker of that source. Columns: ``id,
    source, model, prompt, prompt_tokens, response_tokens`` and, for that, ``split``. Raises
    ``ValueError`` when a column or the source is missing.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = [*_COLUMNS, "split"] if own_splits else _COLUMNS
    try:
        table = pq.read_table(path, columns=columns, filters=[("source", "=", source)])
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: needs the columns {', '.join(columns)} ({error})") from None
    if not table.num_rows:
        raise ValueError(f"{path}: source {source!r} has no rows")
    return [
        Example(
            prompt=row["prompt"],
            output_tokens=int(row["response_tokens"]),
            finish_reason=FinishReason.STOP,
            model=row["model"],
            id=str(row["id"]),
            split=_split(row["split"]) if own_splits else "test",
            prompt_tokens=int(row["prompt_tokens"]),
        )
        for row in table.to_pylist()
        if row["prompt"].strip()
    ]


def sources(path: Path, prefix: str = "") -> list[str]:
    """Names of the file's sources that begin with ``prefix``, ascending."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    names = pc.unique(pq.read_table(path, columns=["source"])["source"]).to_pylist()
    return sorted(name for name in names if name.startswith(prefix))


def _split(name: str) -> str:
    return "validation" if name == "val" else name
