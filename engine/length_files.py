"""Lengths of requests from a file: two columns, no text."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from engine.workload import Lengths

COLUMNS = ("prompt_tokens", "output_tokens")


def read_lengths(path: Path) -> Lengths:
    """Read ``prompt_tokens`` and ``output_tokens`` from .parquet, .jsonl or .csv, by the suffix.

    Other columns are ignored and never loaded from Parquet. Rows with a length below 1 are left
    out: they took no generation. Raises ``ValueError`` on another suffix, a missing column, a
    value that is no whole number, or no rows; ``OSError`` when the file cannot be read.
    """
    if path.suffix == ".parquet":
        rows = _parquet(path)
    elif path.suffix == ".jsonl":
        rows = _jsonl(path)
    elif path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            rows = _pairs(csv.DictReader(file), path)
    else:
        raise ValueError(f"{path.name} must end in .parquet, .jsonl or .csv")
    kept = [pair for pair in rows if min(pair) >= 1]
    if not kept:
        raise ValueError(f"{path.name} holds no row with prompt_tokens and output_tokens >= 1")
    table = np.array(kept, dtype=np.int64)
    return Lengths(table[:, 0].copy(), table[:, 1].copy())


def _parquet(path: Path) -> list[tuple[int, int]]:
    from pyarrow import ArrowInvalid, parquet  # of the extra "train"

    try:
        file = parquet.ParquetFile(path)
    except ArrowInvalid as error:
        raise ValueError(f"{path.name} is not a Parquet file") from error
    with file:
        missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
        if missing:
            raise ValueError(f"{path.name} lacks the column {missing[0]}")
        table = file.read(columns=list(COLUMNS))
    return _pairs(table.to_pylist(), path)


def _jsonl(path: Path) -> list[tuple[int, int]]:
    with path.open(encoding="utf-8") as file:
        try:
            return _pairs((json.loads(line) for line in file if line.strip()), path)
        except json.JSONDecodeError as error:
            # Only the position: the line itself may hold anything.
            raise ValueError(f"{path.name}: not JSON at column {error.colno}") from None


def _pairs(rows: Iterable[Mapping[str, object]], path: Path) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise ValueError(f"{path.name} row {number} must be an object")
        pair = []
        for name in COLUMNS:
            if name not in row:
                raise ValueError(f"{path.name} row {number} lacks {name}")
            try:
                value = float(str(row[name]))
                whole = int(value)
            except (ValueError, OverflowError):
                whole, value = 0, 0.5
            if whole != value:
                raise ValueError(f"{path.name} row {number}: {name} must be a whole number")
            pair.append(whole)
        found.append((pair[0], pair[1]))
    return found
