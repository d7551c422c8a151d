"""The run that an interrupted training left, so that going on with it goes on with its record."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from ranker.records import RunRecord

_FILE = "run.json"


def run_id(workdir: Path | None, record: RunRecord) -> str:
    """Id of the run that was left in ``workdir``; empty when there is none, or one of other
    settings or data."""
    if workdir is None or not (workdir / _FILE).is_file():
        return ""
    try:
        left = json.loads((workdir / _FILE).read_text(encoding="utf-8"))
        return str(left["run_id"]) if left["of"] == _digest(record) else ""
    except (ValueError, KeyError, TypeError):
        return ""


def keep(workdir: Path | None, record: RunRecord, run_id: str) -> None:
    """Leave ``run_id`` in ``workdir``, where the checkpoints are."""
    if workdir is None:
        return
    workdir.mkdir(parents=True, exist_ok=True)
    made = workdir / f".{_FILE}"
    made.write_text(json.dumps({"run_id": run_id, "of": _digest(record)}), encoding="utf-8")
    os.replace(made, workdir / _FILE)


def _digest(record: RunRecord) -> str:
    data = [(part.name, part.context, part.digest) for part in record.datasets]
    known = json.dumps([record.name, sorted(record.params.items()), data], default=str)
    return hashlib.sha256(known.encode()).hexdigest()
