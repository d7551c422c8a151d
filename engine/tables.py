"""Rows of a table from .parquet, .csv or .jsonl; errors name the row, never what it holds."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


def whole_number(row: Mapping[str, Any], column: str, where: str) -> int:
    """A cell that must hold one. Raises ``ValueError`` beginning with ``where``."""
    if row.get(column) is None:
        raise ValueError(f"{where} lacks {column}")
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = math.nan
    if not value.is_integer():
        raise ValueError(f"{where}: {column} must be a whole number")
    return int(value)


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Rows with those columns as far as they exist, and maybe others; Parquet reads no others.

    Raises ``ValueError`` on another suffix or a file that is not what its suffix says, and
    ``OSError`` when it cannot be read.
    """
    if path.suffix == ".parquet":
        yield from _parquet(path, columns)
    elif path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            yield from csv.DictReader(file)
    elif path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except json.JSONDecodeError as error:
                    # Only the position: the line itself may hold anything.
                    where = f"{path.name} line {number} column {error.colno}"
                    raise ValueError(f"{where}: not JSON") from None
                if not isinstance(row, Mapping):
                    raise ValueError(f"{path.name} line {number} must be an object")
                yield row
    else:
        raise ValueError(f"{path.name} must end in .parquet, .csv or .jsonl")


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    from pyarrow import ArrowInvalid, parquet  # of the extra "train"

    try:
        file = parquet.ParquetFile(path)
    except ArrowInvalid as error:
        raise ValueError(f"{path.name} is not a Parquet file") from error
    with file:
        have = [name for name in columns if name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=have):
            yield from batch.to_pylist()
