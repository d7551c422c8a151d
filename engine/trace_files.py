"""Traces from files: when requests came and how long they were; no text."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engine.traces import Trace
from engine.workload import Lengths

REQUIRED = ("input_tokens", "output_tokens")
OPTIONAL = ("arrival_s", "tenant", "session", "prefix_hash")
COLUMNS = (*REQUIRED, *OPTIONAL)


def trace_names(path: Path) -> list[str]:
    """Traces in a file, in order of appearance; empty when it has no column ``trace``."""
    return list(
        dict.fromkeys(str(row["trace"]) for row in _rows(path, ("trace",)) if "trace" in row)
    )


def read_trace(path: Path, name: str | None = None) -> Trace:
    """Read one trace from .parquet, .csv or .jsonl, by the suffix.

    Columns: ``input_tokens, output_tokens`` and, as far as there are any, ``arrival_s`` (seconds),
    ``tenant``, ``session``, ``prefix_hash``; others are ignored. A file with a column ``trace``
    holds several: ``name`` says which, by its whole name or an unambiguous beginning. Rows are put
    in order of arrival and arrivals moved to begin at 0; rows with a length below 1 are left out,
    for they took no generation.

    Raises ``ValueError`` on another suffix, a name that fits no trace or several, a missing column,
    a value that is no number, arrivals in part of the rows, or no rows; ``OSError`` when the file
    cannot be read.
    """
    names = trace_names(path)
    chosen = _choose(names, name, path)
    rows = [
        row
        for row in _rows(path, (*COLUMNS, *(("trace",) if names else ())), chosen)
        if chosen is None or str(row["trace"]) == chosen
    ]
    return _trace(chosen or path.stem, rows, path)


def _choose(names: list[str], name: str | None, path: Path) -> str | None:
    if not names:
        if name is not None:
            raise ValueError(f"{path.name} has no column trace, so none is called {name!r}")
        return None
    fitting = [each for each in names if name is not None and each.startswith(name)]
    if name in names:
        return name
    if name is None and len(names) == 1:
        return names[0]
    if len(fitting) != 1:
        raise ValueError(f"trace must be one of {', '.join(names)} in {path.name}, got {name!r}")
    return fitting[0]


def _trace(name: str, rows: list[Mapping[str, Any]], path: Path) -> Trace:
    columns: dict[str, list[Any]] = {column: [] for column in COLUMNS}
    for number, row in enumerate(rows, start=1):
        where = f"{path.name} row {number} of {name}"
        lengths = [_whole(row, column, where) for column in REQUIRED]
        if min(lengths) < 1:
            continue
        for column, tokens in zip(REQUIRED, lengths, strict=True):
            columns[column].append(tokens)
        columns["arrival_s"].append(_seconds(row.get("arrival_s"), where))
        for column in OPTIONAL[1:]:
            value = row.get(column)
            columns[column].append("" if value is None else str(value))
    if not columns["input_tokens"]:
        raise ValueError(f"{path.name} holds no request of {name} with tokens in and out")
    arrivals = np.array(columns["arrival_s"])
    known = ~np.isnan(arrivals)
    if known.any() and not known.all():
        raise ValueError(f"{path.name}: {name} must have arrival_s in all rows or in none")
    order = np.argsort(arrivals, kind="stable")
    return Trace(
        name=name,
        arrivals=arrivals[order] - arrivals[order[0]] if known.all() else None,
        lengths=Lengths(
            np.array(columns["input_tokens"], dtype=np.int64),
            np.array(columns["output_tokens"], dtype=np.int64),
        ).take(order),
        **{
            field: _labels(columns[column], order)
            for field, column in (
                ("tenants", "tenant"),
                ("sessions", "session"),
                ("prefixes", "prefix_hash"),
            )
        },
    )


def _labels(values: list[str], order: Iterable[int]) -> tuple[str, ...] | None:
    return tuple(values[i] for i in order) if any(values) else None


def _whole(row: Mapping[str, Any], column: str, where: str) -> int:
    if row.get(column) in (None, ""):
        raise ValueError(f"{where} lacks {column}")
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = math.nan
    if not value.is_integer():
        raise ValueError(f"{where}: {column} must be a whole number")
    return int(value)


def _seconds(value: Any, where: str) -> float:
    if value is None or value == "":
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{where}: arrival_s must be seconds") from None


def _rows(
    path: Path, columns: tuple[str, ...], trace: str | None = None
) -> Iterator[Mapping[str, Any]]:
    """Rows with those columns as far as they exist; from Parquet no others are read."""
    if path.suffix == ".parquet":
        yield from _parquet(path, columns, trace)
    elif path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            yield from csv.DictReader(file)
    elif path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                try:
                    row = json.loads(line) if line.strip() else {}
                except json.JSONDecodeError as error:
                    # Only the position: the line itself may hold anything.
                    where = f"{path.name} line {number} column {error.colno}"
                    raise ValueError(f"{where}: not JSON") from None
                if not isinstance(row, Mapping):
                    raise ValueError(f"{path.name} line {number} must be an object")
                if row:
                    yield row
    else:
        raise ValueError(f"{path.name} must end in .parquet, .csv or .jsonl")


def _parquet(
    path: Path, columns: tuple[str, ...], trace: str | None
) -> Iterator[Mapping[str, Any]]:
    from pyarrow import ArrowInvalid, parquet  # of the extra "train"

    try:
        file = parquet.ParquetFile(path)
    except ArrowInvalid as error:
        raise ValueError(f"{path.name} is not a Parquet file") from error
    with file:
        have = [name for name in columns if name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=have):
            rows = batch.to_pylist()
            yield from (row for row in rows if trace is None or str(row["trace"]) == trace)
