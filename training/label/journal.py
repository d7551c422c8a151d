"""Append-only record of a labelling run, one JSON object a line: what is in it is not asked again.

A killed process loses nothing that it was told: every label is one write, and a line that was torn
is cut off when the run goes on. The disk is waited for in groups of lines.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ranker.types import FinishReason
from training.label.answer import Label
from training.label.sampling import Sampling

_FORMAT = 1
#: Lines that a crash of the machine, not of the process, may cost.
_GROUP = 32


def journal_of(out: Path) -> Path:
    """Where the journal of a table lies: beside it."""
    return out.with_name(f"{out.name}.journal")


class Journal:
    """The labels of one run on disk; the first line says how they were drawn.

    Opening it takes a lock, so that two commands never ask for the same labels. Raises
    ``ValueError`` when another command writes to it, when it was made with another sampling, or
    when a line is damaged that is not the last.
    """

    def __init__(self, path: Path, sampling: Sampling) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._unsynced = 0
        try:
            self._lock()
            self.labels = self._read(sampling)
        except BaseException:
            os.close(self._file)
            raise

    def append(self, label: Label) -> None:
        """Write one label."""
        self._write(asdict(label))
        self.labels.append(label)
        self._unsynced += 1
        if self._unsynced >= _GROUP:
            self.sync()

    def sync(self) -> None:
        """Return when what was appended is on the disk."""
        os.fsync(self._file)
        self._unsynced = 0

    def close(self) -> None:
        self.sync()
        os.close(self._file)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{self.path}: another command writes to it; wait for it or choose another --out"
            ) from None

    def _read(self, sampling: Sampling) -> list[Label]:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):  # torn when its writer was killed
            os.ftruncate(self._file, whole)
        if not whole:
            self._write({"format": _FORMAT, "sampling": asdict(sampling)})
            self.sync()
            return []
        head, *lines = content[:whole].splitlines()
        self._check(_object(head), sampling)
        return [_label(_object(line), f"{self.path}: line {i}") for i, line in enumerate(lines, 2)]

    def _check(self, head: Mapping[str, Any], sampling: Sampling) -> None:
        if head.get("format") != _FORMAT or not isinstance(head.get("sampling"), dict):
            raise ValueError(f"{self.path}: line 1 is no head of a journal of format {_FORMAT}")
        if found := sampling.differences(head["sampling"]):
            raise ValueError(
                f"{self.path}: was made with other settings: {'; '.join(found)}; use those "
                f"again, or choose another --out"
            )

    def _write(self, value: dict[str, Any]) -> None:
        line = json.dumps(value, separators=(",", ":")).encode() + b"\n"
        while line:
            line = line[os.write(self._file, line) :]


def _object(line: bytes) -> dict[str, Any]:
    """What a line holds; nothing when it is no JSON object."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _label(value: Mapping[str, Any], where: str) -> Label:
    try:
        return Label(**{**value, "finish_reason": FinishReason(value["finish_reason"])})
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"{where} is damaged; remove it, and it is asked again") from None
