"""Saying that a service answers, and where: a line on standard output and, if asked, a file."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def announce(addresses: dict[str, str], ready_file: Path | None) -> None:
    """Print ``{"event": "ready", "pid": ..., **addresses}`` on one line and write it, without the
    event, to ``ready_file``: all of it or nothing, so that a reader never sees half."""
    value: dict[str, Any] = {"pid": os.getpid(), **addresses}
    if ready_file is not None:
        write_atomically(ready_file, json.dumps(value) + "\n")
    sys.stdout.write(json.dumps({"event": "ready", **value}) + "\n")
    sys.stdout.flush()


def write_atomically(path: Path, text: str) -> None:
    """Replace ``path`` by a file with ``text``. Raises ``OSError``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
