"""Who may come in: the head of the room, if a slot is free and memory admits it."""

from __future__ import annotations

from functools import partial

from engine.core.admission import Admission
from engine.core.config import SchedulerConfig
from engine.core.memory import Memory
from engine.core.request import Request
from engine.core.room import Room
from engine.core.running import Running


class Gate:
    """Remembers a head that memory kept out: it is asked about in every step, and worked out again
    only when something :meth:`changed`. Until then it only gets less.
    """

    def __init__(
        self, config: SchedulerConfig, memory: Memory, room: Room, running: Running, paused: Running
    ) -> None:
        self.admission = Admission(config, memory)
        self._slots = config.max_num_seqs
        self._memory = memory
        self._room = room
        self._running = running
        self._paused = paused
        self._blocked: str | None = None

    def changed(self) -> None:
        """Memory or a slot may have become free, or less be needed."""
        self._blocked = None

    def admissible(self, now: float) -> Request | None:
        """The head of the room, if it may come in."""
        if len(self._running) >= self._slots:
            return None
        head = self._room.head(now)
        return head if head is not None and self.fits(head) else None

    def fits(self, head: Request) -> bool:
        """Whether memory admits a waiting request beside the running."""
        if self._blocked == head.id:
            return False
        if self.admission.admits(head, self._running, partial(self.obtainable, head)):
            return True
        self._blocked = head.id
        return False

    def obtainable(self, head: Request, blocks: int, *stopped: Request) -> bool:
        """Whether ``head`` gets so many: free ones, or those of the paused and ``stopped``."""
        if blocks <= self._memory.free:
            return True
        others = [*stopped, *(each for each in self._paused if each is not head)]
        count = 1
        while others:  # with more of them it never gets less, and a few are mostly enough
            if blocks <= self._memory.obtainable(head, others[:count]):
                return True
            if count >= len(others):
                break
            count *= 4
        return False
