"""What was ranked, for those who want to know: handed on after the answer, never before it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ranker.types import Forecast
from serving.logs import failure

log = logging.getLogger(__name__)

#: What may wait to be handed on: answers, and characters of their prompts. Beyond that it is lost.
_MOST_ANSWERS = 4096
_MOST_CHARS = 32 << 20


@dataclass(frozen=True, slots=True)
class Ranked:
    """One answered call. ``ids``, ``prompts`` and ``forecasts`` belong together by position; ids
    are the callers', those of the outcomes where a caller keeps to that. ``at``: Unix seconds.
    Prompts are not in its ``repr``.
    """

    served_model: str
    ranker: str
    version: str
    tenant: str
    lane: str
    ids: tuple[str, ...]
    prompts: tuple[str, ...] = field(repr=False)
    forecasts: tuple[Forecast, ...]
    at: float


Consumer = Callable[[Ranked], None]


class HandedOn:
    """Hands what was ranked to ``consumers``, one answer at a time, on a thread of its own.

    Whatever they do neither delays nor fails an answer: an error is logged without its message,
    which may quote a prompt, and when too much waits it is dropped and ``dropped`` told how many
    prompts. Safe for several threads; without consumers it costs nothing.
    """

    def __init__(
        self,
        consumers: Sequence[Consumer],
        dropped: Callable[[int], None] = lambda prompts: None,
    ) -> None:
        self._consumers = tuple(consumers)
        self._dropped = dropped
        self._lock = threading.Lock()
        self._answers = self._chars = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ranked") if consumers else None

    @property
    def wanted(self) -> bool:
        """Whether anybody wants to know."""
        return self._thread is not None

    def __call__(self, ranked: Ranked) -> None:
        if self._thread is None:
            return
        chars = sum(map(len, ranked.prompts))
        with self._lock:
            full = self._answers >= _MOST_ANSWERS or self._chars + chars > _MOST_CHARS
            if not full:
                self._answers += 1
                self._chars += chars
        if full:
            self._dropped(len(ranked.prompts))
            return
        self._thread.submit(self._hand_on, ranked, chars)

    def close(self) -> None:
        """Wait until all that waits was handed on."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)

    def _hand_on(self, ranked: Ranked, chars: int) -> None:
        try:
            for consumer in self._consumers:
                try:
                    consumer(ranked)
                except Exception as error:
                    log.error("what was ranked was not taken: %s", failure(error))
        finally:
            with self._lock:
                self._answers -= 1
                self._chars -= chars
