"""Lengths of requests from a file: two columns, no text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.tables import read_rows, whole_number
from engine.workload import Lengths

COLUMNS = ("prompt_tokens", "output_tokens")


def read_lengths(path: Path) -> Lengths:
    """Read ``prompt_tokens`` and ``output_tokens`` from .parquet, .jsonl or .csv, by the suffix.

    Other columns are ignored and never loaded from Parquet. Rows with a length below 1 are left
    out: they took no generation. Raises ``ValueError`` on another suffix, a missing column, a
    value that is no whole number, or no rows; ``OSError`` when the file cannot be read.
    """
    kept: list[list[int]] = []
    for number, row in enumerate(read_rows(path, COLUMNS), start=1):
        where = f"{path.name} row {number}"
        pair = [whole_number(row, column, where) for column in COLUMNS]
        if min(pair) >= 1:
            kept.append(pair)
    if not kept:
        raise ValueError(f"{path.name} holds no row with prompt_tokens and output_tokens >= 1")
    table = np.array(kept, dtype=np.int64)
    return Lengths(table[:, 0].copy(), table[:, 1].copy())
