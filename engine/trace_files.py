"""Traces from files: when requests came and how long they were; no text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engine.tables import read_rows, whole_number
from engine.traces import Trace
from engine.workload import Lengths

REQUIRED = ("input_tokens", "output_tokens")
OPTIONAL = ("arrival_s", "tenant", "session", "prefix_hash")
COLUMNS = (*REQUIRED, *OPTIONAL)


def trace_names(path: Path) -> list[str]:
    """Traces in a file, in order of appearance; empty when it has no column ``trace``."""
    return _names(read_rows(path, ("trace",)))


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
    rows = list(read_rows(path, (*COLUMNS, "trace")))
    chosen = _choose(_names(rows), name, path)
    if chosen is not None:
        rows = [row for row in rows if str(row.get("trace")) == chosen]
    return _trace(chosen or path.stem, rows, path)


def _names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(row["trace"]) for row in rows if row.get("trace") is not None))


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
        lengths = [whole_number(row, column, where) for column in REQUIRED]
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


def _seconds(value: Any, where: str) -> float:
    if value is None or value == "":
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{where}: arrival_s must be seconds") from None
