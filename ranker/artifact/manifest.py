"""``ranker.json``: whose ranker it is and which files make it up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ranker.artifact import folder as disk
from ranker.artifact.content import Bundle, Files, json_bytes, parse_json
from ranker.artifact.errors import ArtifactError

#: Raised when the meaning of a file changes; another number is refused.
FORMAT = 2
MANIFEST = "ranker.json"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the artifact: its size in bytes and its SHA-256 in hexadecimal digits."""

    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if not isinstance(self.bytes, int) or self.bytes < 0:
            raise ValueError("files: bytes must be a whole number, at least 0")
        if not isinstance(self.sha256, str) or len(self.sha256) != 64:
            raise ValueError("files: sha256 must have 64 hexadecimal digits")


@dataclass(frozen=True, slots=True)
class Manifest:
    """``kind`` is that of the model, for readers; what is loaded is said in the model's files."""

    name: str
    served_model: str
    kind: str
    files: Mapping[str, Entry]

    @classmethod
    def of(cls, name: str, served_model: str, kind: str, files: Files) -> Manifest:
        entries = {n: Entry(len(files[n]), disk.digest(files[n])) for n in sorted(files)}
        return cls(name, served_model, kind, entries)

    def to_bytes(self) -> bytes:
        files = {n: {"bytes": e.bytes, "sha256": e.sha256} for n, e in self.files.items()}
        return json_bytes(
            {
                "format": FORMAT,
                "kind": self.kind,
                "name": self.name,
                "served_model": self.served_model,
                "files": files,
            }
        )

    @property
    def version(self) -> str:
        """Digits that change with the content: those of the manifest's own hash."""
        return disk.digest(self.to_bytes())[:12]


def read_manifest(folder: Path) -> Manifest:
    """Raises :class:`ArtifactError` for a folder without a manifest that makes sense."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ArtifactError(f"{folder}: no {MANIFEST} in it, so not a ranker")
    data = disk.read(folder, MANIFEST, _MOST_BYTES)
    try:
        return _manifest(parse_json(data))
    except ValueError as error:
        raise ArtifactError(f"{path}: {error}") from None


def _manifest(stored: dict[str, Any]) -> Manifest:
    number = stored.pop("format", None)
    if number != FORMAT:
        raise ValueError(
            f"format {number!r:.40}, this version reads format {FORMAT}; train the ranker again"
        )
    wanted = {"name": str, "served_model": str, "kind": str, "files": dict}
    if set(stored) != set(wanted):
        raise ValueError(f"must hold format, {', '.join(wanted)} and nothing else")
    for key, kind in wanted.items():
        if not isinstance(stored[key], kind):
            raise ValueError(f"{key} must be {'text' if kind is str else 'an object'}")
    if len(stored["files"]) > disk.MOST_FILES:
        raise ValueError(f"files: at most {disk.MOST_FILES} make up a ranker")
    for name, entry in stored["files"].items():
        disk.check_name(name)
        if not isinstance(entry, dict) or set(entry) != {"bytes", "sha256"}:
            raise ValueError(f"files: {name!r} must have bytes and sha256")
    entries = {name: Entry(**entry) for name, entry in stored["files"].items()}
    return Manifest(stored["name"], stored["served_model"], stored["kind"], entries)


def read_files(folder: Path, manifest: Manifest) -> Bundle:
    """Every file of the manifest, with the size and the digest that it should have."""
    disk.check_strays(folder)
    files: Files = {}
    for name, entry in manifest.files.items():
        most = disk.LIMITS[Path(name).suffix]
        if entry.bytes > most:
            raise ArtifactError(f"{folder / name}: {entry.bytes} bytes, at most {most} are read")
        data = disk.read(folder, name, entry.bytes)
        if len(data) < entry.bytes:
            raise ArtifactError(
                f"{folder / name}: damaged (cut short: {len(data)} of {entry.bytes} bytes)"
            )
        if disk.digest(data) != entry.sha256:
            raise ArtifactError(f"{folder / name}: damaged (its SHA-256 differs from {MANIFEST})")
        files[name] = data
    return Bundle(str(folder), files)
