"""Files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> Path:
    """Replace ``path`` by a file with ``text``; return ``path``. A reader sees the old or the new,
    and so does whoever reads it after the power was cut.

    Makes its folder. Raises ``OSError``, and then leaves what was there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # else the name may reach the disk before what it names
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
