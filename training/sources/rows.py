"""Rows of a Parquet, JSON-lines or CSV file, read one after the other."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

#: A row and where it is, as errors put it: the file and the row's number, from 1.
Row = tuple[str, Mapping[str, Any]]

_BATCH = 1024
_FIELD = 64 << 20  # characters of one CSV field; the module's own limit is 131,072


def read(path: Path, columns: Collection[str] | None = None) -> Iterator[Row]:
    """Rows with their places; of a table only ``columns`` are read. A cell may be absent.

    JSON lines count as rows by line, blank ones included; a file that is one JSON array is taken as
    well. Python's decoder lets lone surrogates and NUL characters through, which Arrow's refuses.
    Raises ``ValueError`` naming the file, and the row where there is one.
    """
    path = Path(path)
    kinds = {".parquet": _parquet, ".jsonl": _json, ".json": _json, ".csv": _csv}
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"{path}: must end in one of {', '.join(kinds)}")
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    return kind(path, columns)


def _parquet(path: Path, columns: Collection[str] | None) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            wanted = names if columns is None else [name for name in names if name in columns]
            for batch in file.iter_batches(_BATCH, columns=wanted):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}: row {number}", row
    except (pa.ArrowInvalid, UnicodeDecodeError, OSError) as error:
        raise _unreadable(f"{path}", "Parquet", error) from None


def _json(path: Path, columns: Collection[str] | None) -> Iterator[Row]:
    records: Iterator[tuple[int, Any]]
    with path.open("rb") as lines:
        if lines.peek(256).lstrip()[:1] == b"[":
            records = enumerate(_array(path, lines.read()), 1)
        else:
            records = _lines(path, lines)
        for number, record in records:
            if not isinstance(record, dict):
                raise ValueError(f"{path}: row {number}: must be a JSON object")
            yield f"{path}: row {number}", record


def _lines(path: Path, lines: Any) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, _decoded(f"{path}: row {number}", line)


def _array(path: Path, content: bytes) -> list[Any]:
    found: list[Any] = _decoded(f"{path}", content)
    return found


def _decoded(where: str, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _unreadable(where, "JSON", error) from None


def _csv(path: Path, columns: Collection[str] | None) -> Iterator[Row]:
    csv.field_size_limit(_FIELD)
    number = 0
    with path.open(encoding="utf-8-sig", newline="") as lines:
        try:
            rows = csv.reader(lines, strict=True)
            names = next(rows, [])
            for cells in rows:
                if not cells:
                    continue
                number += 1
                if len(cells) != len(names):
                    raise ValueError(
                        f"{path}: row {number}: has {len(cells)} cells, the header {len(names)}"
                    )
                yield f"{path}: row {number}", dict(zip(names, cells, strict=True))
        except csv.Error as error:
            raise _unreadable(f"{path}: row {number + 1}", "CSV", error) from None
        except UnicodeDecodeError as error:  # of a block of rows, not of one
            raise _unreadable(f"{path}", "CSV in UTF-8", error) from None


def _unreadable(where: str, kind: str, error: Exception) -> ValueError:
    # A parser's or codec's own words might quote what it read.
    return ValueError(f"{where}: not readable as {kind} ({type(error).__name__})")
