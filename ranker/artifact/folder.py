"""The folder on disk: replaced as a whole, read with bounds, nothing followed out of it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ranker.artifact.content import Files
from ranker.artifact.errors import ArtifactError

#: What may be in an artifact, by the end of its name, and the most bytes that are read of it.
LIMITS: Mapping[str, int] = {
    ".json": 64 << 20,
    ".txt": 256 << 20,
    ".safetensors": 512 << 20,
    ".onnx": 2 << 30,  # what a protocol buffer can hold
}
MOST_FILES = 256
_NAME = re.compile(r"(?:[a-z0-9][a-z0-9_-]*/){0,6}[a-z0-9][a-z0-9_-]*(?P<end>\.[a-z]+)")
_PICKLED = {".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin", ".ckpt", ".npy", ".npz", ".skops"}
#: How a pickle of protocol 2 or later begins, and a zip file, which is what torch.save makes.
_MAGIC = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def replace(folder: Path, files: Files, marker: str) -> None:
    """Let ``folder`` hold ``files`` and nothing else.

    Written beside the target and renamed, so a reader sees the old folder, the new one or, between
    two renames, none; never half of one. Raises :class:`ArtifactError` when ``folder`` is a file,
    or is not empty and has no file ``marker``.
    """
    ours = not folder.exists() or (folder / marker).is_file()
    if not ours and (not folder.is_dir() or any(folder.iterdir())):
        raise ArtifactError(f"{folder}: not empty and not a ranker; choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, data in files.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(data)
        made.chmod(0o755)
        old = folder.with_name(f"{made.name}-old")
        if folder.exists():
            os.replace(folder, old)
        try:
            os.replace(made, folder)
        except OSError:
            if old.exists():
                os.replace(old, folder)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def check_name(name: str) -> None:
    """Raises ``ValueError`` unless ``name`` is a plain relative path to a file of a known kind."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"files: {name[:80]!r} is not a plain name inside the folder")
    if match["end"] not in LIMITS:
        raise ValueError(f"files: {name!r} must end in one of {', '.join(LIMITS)}")


def check_strays(folder: Path) -> None:
    """Refuse links that lead out of ``folder`` and anything in it that looks like a pickle."""
    seen = 0
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(parent, name)
            seen += 1
            if seen > 4 * MOST_FILES:
                raise ArtifactError(f"{folder}: holds too many files for a ranker")
            _stay_inside(folder, path)
            if path.suffix.lower() in _PICKLED:
                raise ArtifactError(f"{path}: may be a pickle; a ranker has none, remove it")


def read(folder: Path, name: str, most: int) -> bytes:
    """The bytes of a regular file inside ``folder``, at most ``most`` of them.

    Raises :class:`ArtifactError` naming the file when it is missing, no regular file, too large,
    outside of the folder or looks like a pickle.
    """
    path = folder / name
    _stay_inside(folder, path)
    try:
        # Looked at before it is opened: opening a pipe would wait for a writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise ArtifactError(f"{path}: not a regular file")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except FileNotFoundError:
        raise ArtifactError(f"{path}: missing; the ranker is incomplete") from None
    except OSError as error:
        raise ArtifactError(f"{path}: not readable ({error.strerror})") from None
    if len(data) > most:
        raise ArtifactError(f"{path}: larger than {most} bytes, which is what it may have")
    if data.startswith(_MAGIC):
        raise ArtifactError(f"{path}: is a pickle or a zip file; no ranker is loaded from one")
    return data


def _stay_inside(folder: Path, path: Path) -> None:
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a link to itself
        inside = False
    if not inside:
        raise ArtifactError(f"{path}: a link out of the folder of the ranker")
