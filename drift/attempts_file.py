"""Attempts at retraining on disk, beside the outcomes that they learn from."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from drift.files import write_whole
from drift.retraining import Attempt


def retraining_path(outcomes: Path) -> Path:
    """Where the attempts are kept: beside the store of outcomes."""
    return outcomes.with_name(outcomes.name + ".retraining.json")


@contextmanager
def retraining_lock(outcomes: Path) -> Iterator[bool]:
    """Whether this process is the one that retrains on these ``outcomes``: one at a time is. Held
    to the end of the block, or of the process. Raises ``OSError``."""
    path = outcomes.with_name(outcomes.name + ".retraining.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def save_attempts(path: Path, attempts: Mapping[str, Attempt]) -> None:
    """Write the last attempt of each served model. Raises ``OSError``."""
    write_whole(path, json.dumps([attempt.as_dict() for attempt in attempts.values()], indent=1))


def load_attempts(path: Path) -> dict[str, Attempt]:
    """By served model; none when there is no file. Raises ``ValueError`` for a file that is
    something else: whoever begins anew because of that could do so for ever."""
    if not path.exists():
        return {}
    try:
        found = [Attempt.of(values) for values in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: holds no attempts at retraining ({error}); remove it") from None
    return {attempt.served_model: attempt for attempt in found}
