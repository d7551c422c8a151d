"""The document for however many pages are open: read once, told to all."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from serving.logs import failure

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FeedConfig:
    """``every``: seconds between two readings while somebody watches; none are made otherwise.
    ``share``: of the time that readings may take, so that a board of many slices doesn't hold up
    reports. ``viewers``: pages that may be live at once.
    """

    every: float = 2.0
    share: float = 0.1
    viewers: int = 64

    def __post_init__(self) -> None:
        if not 0.0 < self.every < math.inf:
            raise ValueError(f"feed.every must be > 0 and finite, got {self.every}")
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"feed.share must lie in (0, 1], got {self.share}")
        if self.viewers < 1:
            raise ValueError(f"feed.viewers must be >= 1, got {self.viewers}")


@dataclass(frozen=True, slots=True)
class Document:
    """One reading as JSON, plain and gzipped. ``etag`` is the same while nothing but the time
    changed; ``at``: Unix seconds of the server."""

    body: bytes
    zipped: bytes
    etag: str
    at: float

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Document:
        """Raises ``ValueError`` for numbers that JSON does not have."""
        timeless = {name: value for name, value in values.items() if name != "at"}
        digest = hashlib.sha256(_json(timeless)).hexdigest()[:24]
        body = _json(values)
        return cls(body, gzip.compress(body, 5, mtime=0), f'"{digest}"', float(values["at"]))


class NoDocument(Exception):
    """The reading failed; the log has more."""


class Feed:
    """``read`` is called in a thread, never twice at once, whoever leaves meanwhile; ``clock`` is
    monotonic seconds.

    Belongs to one event loop.
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, Any]],
        clock: Callable[[], float],
        config: FeedConfig | None = None,
    ) -> None:
        self._read = read
        self._clock = clock
        self._config = config or FeedConfig()
        self._reading: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        self._next = -math.inf
        self._latest: Document | None = None
        self._viewers = 0

    async def latest(self) -> Document:
        """The last reading, or a new one when that is old. Raises ``NoDocument``."""
        if self._reading is None and (began := self._clock()) >= self._next:
            self._reading = asyncio.create_task(self._renew(began), name="board")
        if self._reading is not None:
            await asyncio.shield(self._reading)  # a thread can't be stopped: others wait for it
        if self._latest is None:
            raise NoDocument
        return self._latest

    @property
    def full(self) -> bool:
        """Whether one more viewer is too many."""
        return self._viewers >= self._config.viewers

    async def events(self) -> AsyncIterator[bytes]:
        """Server-sent events until :meth:`close`: one at each reading, that it was made. None when
        so many viewers came at once that there is no place any more.

        ``board``: ``{"etag", "at", "every"}``; ``trouble``: there is no reading.
        """
        if self.full:
            return
        self._viewers += 1
        try:
            while not self._closed.is_set():
                yield await self._told()
                try:
                    async with asyncio.timeout(self._config.every):
                        await self._closed.wait()
                except TimeoutError:
                    pass
        finally:
            self._viewers -= 1

    def close(self) -> None:
        """End all events: the server stops."""
        self._closed.set()

    async def _told(self) -> bytes:
        try:
            found = await self.latest()
        except NoDocument:
            return b"event: trouble\ndata: {}\n\n"
        wait = max(self._config.every, self._next - self._clock())
        told = {"etag": found.etag, "at": found.at, "every": round(wait, 3)}
        return b"event: board\ndata: " + _json(told) + b"\n\n"

    async def _renew(self, began: float) -> None:
        try:
            self._latest = await asyncio.to_thread(lambda: Document.of(self._read()))
        except Exception as error:
            if self._latest is not None or self._next == -math.inf:  # said once
                log.error("the dashboard has no board: %s", failure(error))
            self._latest = None
        self._reading, ended = None, self._clock()
        rest = (ended - began) * (1.0 / self._config.share - 1.0)
        self._next = max(began + self._config.every / 2, ended + rest)


def _json(values: Mapping[str, Any]) -> bytes:
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(errors="replace")
