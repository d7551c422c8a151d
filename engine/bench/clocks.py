"""What time it is for a real engine under test, and how to wait for a moment of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol


class ClockKind(StrEnum):
    WALL = "wall"  #: as clients see it
    PROCESSOR = "processor"  #: what this process itself ran; other programs cost nothing


class Clock(Protocol):
    def now(self) -> float:
        """Seconds, never descending."""
        ...

    async def until(self, moment: float, idle: Callable[[], bool]) -> None:
        """Wait until ``now`` reaches ``moment``. ``idle``: whether the engine has nothing to do."""
        ...


class WallClock:
    """Real time."""

    def now(self) -> float:
        return time.monotonic()

    async def until(self, moment: float, idle: Callable[[], bool]) -> None:
        await asyncio.sleep(max(0.0, moment - self.now()))


class ProcessorClock:
    """Seconds that this process ran on a processor, and the pauses of an engine without requests.

    On a machine that others use, what an engine would take on one of its own, but for caches that
    it shares. One thread must do all the work: two at once would count twice.
    """

    #: Seconds between two looks at the clock: much less than a step, and little work.
    _LOOK = 0.004

    def __init__(self, ran: Callable[[], float] = time.process_time) -> None:
        self._ran = ran
        self._skipped = 0.0

    def now(self) -> float:
        return self._ran() + self._skipped

    async def until(self, moment: float, idle: Callable[[], bool]) -> None:
        while (left := moment - self.now()) > 0.0:
            if idle():
                self._skipped += left
                return
            await asyncio.sleep(self._LOOK)
