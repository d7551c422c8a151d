"""Prompts and realised lengths of other services, from a Parquet file that is not shipped."""

from __future__ import annotations

from pathlib import Path

from ranker.types import FinishReason
from training.sources import Example

#: Limits under which answers were generated: source and model (how both begin), tokens.
CAPS = (
    ("llmdrift/countahappynumber", "", 2000),
    ("llmdrift/", "", 1000),
    ("self_instruct", "davinci", 1024),
    ("alpaca_eval/", "phi-2", 2048),
    ("alpaca_eval/", "gemini-pro", 2048),
    ("", "", 4096),
)
#: The file counts with another tokenizer than the limit did, so that an answer this near to it
#: counts as cut off. A whole answer that is called a lower bound loses a little; a cut one that is
#: called whole would be wrong.
NEAR = 0.95

_COLUMNS = ["id", "source", "model", "prompt", "prompt_tokens", "response_tokens"]


def load(path: Path, source: str, *, own_splits: bool = False) -> list[Example]:
    """Rows of ``source`` in the file's order, all as test examples: nothing here was trained on.

    With ``own_splits`` they keep those of the file, for a ranker of that source. Answers near a
    limit of :data:`CAPS` are censored. Columns: ``id, source, model, prompt, prompt_tokens,
    response_tokens`` and, for the splits, ``split``. Raises ``ValueError`` when the file, a column
    or the source is missing.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not Path(path).is_file():
        raise ValueError(f"{path}: no such file")
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
            finish_reason=_finish(source, row["model"], row["response_tokens"]),
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


def _finish(source: str, model: str, tokens: int) -> FinishReason:
    cap = next(n for s, m, n in CAPS if source.startswith(s) and model.startswith(m))
    return FinishReason.LENGTH if tokens >= NEAR * cap else FinishReason.STOP


def _split(name: str) -> str:
    return "validation" if name == "val" else name
