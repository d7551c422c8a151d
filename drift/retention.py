"""Prompts on their way to disk: whoever has them never waits, and never hears of trouble there."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from drift.prompts import EMPTY_EVERY_S, Prompt, PromptStore, RetentionConfig

log = logging.getLogger(__name__)

_BATCH = 512
#: How often old prompts are looked for when no new ones come.
_PRUNE_EVERY_S = 3600.0


@dataclass(frozen=True, slots=True)
class RetentionCounts:
    """Since the start: prompts ``kept`` (new ones), ``dropped`` because too many waited,
    ``oversize`` ones, ``failed`` ones that the disk refused, ``deleted`` ones; and what is held
    now, in ``prompts`` and ``bytes``."""

    kept: int = 0
    dropped: int = 0
    oversize: int = 0
    failed: int = 0
    deleted: int = 0
    prompts: int = 0
    bytes: int = 0


class Retention:
    """A store of prompts with one thread that writes to it.

    ``clock`` gives Unix seconds. Close it at the end: what waits is written then.
    """

    def __init__(self, path: Path, config: RetentionConfig, clock: Callable[[], float]) -> None:
        """Opens the store and deletes what is too old. Raises as :class:`PromptStore` does."""
        self._config = config
        self._clock = clock
        self._store = PromptStore(path, config)
        self._waiting: deque[Prompt] = deque()
        self._waiting_bytes = 0
        self._closing = False
        self._counted = dict.fromkeys(("kept", "dropped", "oversize", "failed", "deleted"), 0)
        self._held = (0, 0)
        self._changed = threading.Condition()
        self._prune()
        self._thread = threading.Thread(target=self._run, name="prompts", daemon=True)
        self._thread.start()

    def offer(self, prompts: Sequence[Prompt]) -> None:
        """Keep ``prompts`` soon. Returns at once and raises nothing: those that there is no room
        for are dropped and counted."""
        with self._changed:
            for prompt in prompts:
                size = len(prompt.text)
                full = (
                    len(self._waiting) >= self._config.waiting
                    or self._waiting_bytes + size > self._config.waiting_bytes
                )
                if full or self._closing:
                    self._counted["dropped"] += 1
                    continue
                self._waiting.append(prompt)
                self._waiting_bytes += size
            self._changed.notify()

    def counts(self) -> RetentionCounts:
        with self._changed:
            prompts, size = self._held
            return RetentionCounts(**self._counted, prompts=prompts, bytes=size)

    def close(self, timeout_s: float = 10.0) -> None:
        """Write what waits, then close the store. Closing twice is harmless."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    if not self._waiting and not self._closing:
                        self._changed.wait(EMPTY_EVERY_S if self._store.stale else _PRUNE_EVERY_S)
                    batch = [self._next() for _ in range(min(_BATCH, len(self._waiting)))]
                    if not batch and self._closing:
                        return
                if batch:
                    self._write(batch)
                else:
                    self._prune()
        finally:
            self._store.close()

    def _next(self) -> Prompt:
        prompt = self._waiting.popleft()
        self._waiting_bytes -= len(prompt.text)
        return prompt

    def _write(self, batch: Sequence[Prompt]) -> None:
        try:
            kept = self._store.put(batch, self._clock())
            held = len(self._store), self._store.bytes
        except (sqlite3.Error, OSError) as error:
            # The name of the error alone: its words may quote what was to be written.
            log.error("%d prompts were not retained (%s)", len(batch), type(error).__name__)
            with self._changed:
                self._counted["failed"] += len(batch)
            return
        with self._changed:
            self._counted["kept"] += kept.new
            self._counted["oversize"] += kept.oversize
            self._counted["deleted"] += kept.deleted
            self._held = held

    def _prune(self) -> None:
        try:
            deleted = self._store.prune(self._clock())
            held = len(self._store), self._store.bytes
        except (sqlite3.Error, OSError) as error:
            log.error("old prompts were not deleted (%s)", type(error).__name__)
            return
        with self._changed:
            self._counted["deleted"] += deleted
            self._held = held
