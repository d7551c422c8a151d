"""Examples of a table: Parquet, JSON lines or CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ranker.types import FinishReason
from training.sources.example import Data, Example
from training.sources.leaks import without_leaks
from training.split import RESERVED, SPLITS, bucket, split_of


def read_table(path: Path, served_model: str | None = None) -> Data:
    """Examples of a Parquet, JSON-lines or CSV file, one model's.

    Columns: ``prompt``, ``output_tokens``; optional ``finish_reason`` (``stop`` when absent),
    ``model``, ``id`` and ``split``. Without ``split`` the prompt's hash decides by the rule of
    :mod:`training.split`. Equal prompts are never on both sides: :func:`without_leaks` drops those
    that splits of the file share. ``served_model`` picks the rows of one model; it is needed when
    the file holds several. The file is streamed through ``datasets``, which then makes no copy of
    the prompts in its cache. Raises ``ValueError`` naming the column, and the row where there is
    one.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    rows = enumerate(_rows(path, _kind(path)))
    examples = [e for i, row in rows if (e := _example(path, i, row, served_model))]
    models = sorted({example.model for example in examples})
    if len(models) > 1:
        raise ValueError(
            f"{path}: holds answers of {len(models)} models ({', '.join(models[:5])}); a ranker "
            f"belongs to one, name it with --served-model"
        )
    if not examples:
        raise ValueError(f"{path}: no rows" + (f" of model {served_model}" if served_model else ""))
    kept = tuple(without_leaks(examples))
    return Data(path.stem, path.absolute().as_uri(), kept, leaks=len(examples) - len(kept))


def _kind(path: Path) -> str:
    kinds = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv"}
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"{path}: must end in one of {', '.join(kinds)}")
    return kind


def _rows(path: Path, kind: str) -> Iterator[Mapping[str, Any]]:
    from datasets import load_dataset

    try:
        yield from load_dataset(kind, data_files=str(path), split="train", streaming=True)
    except StopIteration:  # how datasets takes an empty file
        return
    except ValueError as error:
        # Of a parser or codec, in words of its own, which might quote what it read.
        raise ValueError(f"{path}: not readable as {kind} ({type(error).__name__})") from None


def _example(
    path: Path, number: int, row: Mapping[str, Any], served_model: str | None
) -> Example | None:
    where = f"{path}: row {number + 1}"
    for column in ("prompt", "output_tokens"):
        if row.get(column) is None:
            raise ValueError(f"{where}: column {column} is missing or empty")
    model = str(row.get("model") or served_model or "default")
    if served_model is not None and model != served_model:
        return None
    prompt, tokens = row["prompt"], row["output_tokens"]
    if not isinstance(prompt, str):
        raise ValueError(f"{where}: prompt must be text, got {type(prompt).__name__}")
    # Parquet may hold whole numbers as floats; NaN and infinities are not whole.
    if isinstance(tokens, float) and tokens.is_integer():
        tokens = int(tokens)
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
        raise ValueError(f"{where}: output_tokens must be a whole number of at least 0")
    reason = str(row.get("finish_reason") or FinishReason.STOP)
    if reason not in {str(known) for known in FinishReason}:
        raise ValueError(f"{where}: finish_reason must be stop, length, abort or error")
    split = row.get("split") or split_of(bucket(prompt))
    if split == RESERVED:
        return None
    if split == "val":
        split = "validation"
    if split not in SPLITS:
        raise ValueError(f"{where}: split must be one of {', '.join(SPLITS)}")
    return Example(
        prompt, tokens, FinishReason(reason), model, str(row.get("id") or number), str(split)
    )
