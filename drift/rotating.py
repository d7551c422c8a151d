"""A file of lines that is appended to, survives crashes, and doesn't grow without bound.

``events.jsonl`` is the one being written; ``events.jsonl.1`` the one before it, and so on.
"""

from __future__ import annotations

import fcntl
import glob
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class RotatingFile:
    """Safe for several threads and processes. At most ``(keep + 1) * max_bytes`` and one append
    are on disk."""

    def __init__(self, path: Path, max_bytes: int = 16 << 20, keep: int = 4) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be >= 1, got {max_bytes}")
        if keep < 1:
            raise ValueError(f"keep must be >= 1, got {keep}: how many full files stay")
        self.path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._lock = threading.Lock()

    def append(self, lines: bytes) -> None:
        """Write whole ``lines``; they are on disk when this returns. Raises ``OSError``.

        A line that a crash or a full disk cut off is ended first, so that what follows stays
        readable.
        """
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked() as handle:
                size = os.fstat(handle).st_size
                if size and os.pread(handle, 1, size - 1) != b"\n":
                    lines = b"\n" + lines
                while lines:  # a write may take less than it is given
                    lines = lines[os.write(handle, lines) :]
                os.fsync(handle)
                if os.fstat(handle).st_size >= self._max_bytes:
                    self._rotate()

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The file that has the name now, held against other processes."""
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if _same(handle, self.path):  # else another process rotated while this one waited
                    yield handle
                    return
            finally:
                os.close(handle)

    def _rotate(self) -> None:
        """Each step is one rename. A crash between two leaves a gap, which the next one fills."""
        names = [self.path, *(_numbered(self.path, n) for n in range(1, self._keep + 1))]
        free = next((i for i, name in enumerate(names) if not name.exists()), self._keep)
        for i in range(free, 0, -1):
            os.replace(names[i - 1], names[i])


def read_parts(path: Path) -> Iterator[tuple[Path, bytes]]:
    """Whole contents of ``path`` and the files before it, oldest first; none when none is there.

    They are opened from the newest on, so that a rotation meanwhile can neither hide nor double
    a part.
    """
    with _open_parts(path) as handles:
        for name, handle in reversed(handles):
            with os.fdopen(os.dup(handle), "rb") as part:
                yield name, part.read()


@contextmanager
def _open_parts(path: Path) -> Iterator[list[tuple[Path, int]]]:
    handles: list[tuple[Path, int]] = []
    seen: set[int] = set()
    try:
        for name in (path, *_older(path)):
            try:
                handle = os.open(name, os.O_RDONLY)
            except FileNotFoundError:
                continue
            inode = os.fstat(handle).st_ino
            if inode in seen:
                os.close(handle)
                continue
            seen.add(inode)
            handles.append((name, handle))
        yield handles
    finally:
        for _, handle in handles:
            os.close(handle)


def _older(path: Path) -> Iterator[Path]:
    """One number past the last that is there, because a rotation may be under way."""
    numbers = [
        int(found.suffix[1:])
        for found in path.parent.glob(f"{glob.escape(path.name)}.*")
        if found.suffix[1:].isdigit() and found.suffix[1:].isascii()
    ]
    for number in range(1, max(numbers, default=0) + 2):
        yield _numbered(path, number)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _same(handle: int, path: Path) -> bool:
    mine = os.fstat(handle)
    try:
        named = os.stat(path)
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (named.st_dev, named.st_ino)
