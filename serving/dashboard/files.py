"""The page's own files, read once; nothing else can be asked for."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

#: The one page; the other files are its assets.
PAGE = "index.html"


@dataclass(frozen=True, slots=True)
class File:
    """Content as it is and gzipped, with its media type and a tag that changes when it does."""

    body: bytes
    zipped: bytes
    kind: str
    etag: str

    @classmethod
    def of(cls, name: str, body: bytes) -> File:
        digest = hashlib.sha256(body).hexdigest()[:24]
        kind = _TYPES[name.rpartition(".")[2]]
        return cls(body, gzip.compress(body, mtime=0), kind, f'"{digest}"')


def page_files() -> dict[str, File]:
    """By name. Colours and base style are those of the reports."""
    found = {name: File.of(name, part.read_bytes()) for name, part in _assets().items()}
    for name in ("tokens.css", "page.css"):
        found[name] = File.of(name, (files("drift.report") / "assets" / name).read_bytes())
    return found


def _assets() -> dict[str, Traversable]:
    folder = files("serving.dashboard") / "assets"
    return {
        part.name: part
        for part in folder.iterdir()
        if part.is_file() and part.name.rpartition(".")[2] in _TYPES
    }
