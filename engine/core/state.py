"""Where every request stands, and the four ways it can move."""

from __future__ import annotations

from engine.core.config import SchedulerConfig
from engine.core.integrity import check
from engine.core.memory import Memory
from engine.core.queue import Place, WaitingQueue
from engine.core.request import Request, Status
from engine.core.running import RunningSet


class State:
    """Requests held, each waiting or running at one place of the order for its whole life."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.memory = Memory(config)
        self.waiting = WaitingQueue()
        self.running = RunningSet()
        self.requests: dict[str, Request] = {}
        self.preemptions = 0
        self._places: dict[str, Place] = {}

    def holds(self, request: Request) -> bool:
        """Whether this very request is held; another may have its id by now."""
        return self.requests.get(request.id) is request

    def enter(self, request: Request, place: Place) -> None:
        self.requests[request.id] = request
        self._places[request.id] = place
        self.waiting.push(request, place)

    def admissible(self) -> Request | None:
        """The first waiting request if a slot is free and its tokens fit beside the running."""
        if len(self.running) >= self.config.max_num_seqs:
            return None
        request = self.waiting.peek()
        if request is None or not self.memory.fits(request, beside_others=len(self.running) > 0):
            return None
        return request

    def admit(self) -> Request:
        """Let the first waiting request run; ask :meth:`admissible` first."""
        request = self.waiting.pop()
        # All known tokens at once: nobody can be left half prefilled for want of memory.
        self.memory.hold(request, request.total_tokens)
        request.status = Status.RUNNING
        self.running.add(request, self._places[request.id])
        return request

    def preempt(self, request: Request) -> None:
        """Drop what was computed; the request waits at its old place and will recompute."""
        self._stop(request)
        request.computed_tokens = 0
        request.status = Status.WAITING
        request.preemptions += 1
        self.preemptions += 1
        self.waiting.push(request, self._places[request.id])

    def leave(self, request: Request) -> None:
        if request.status is Status.RUNNING:
            self._stop(request)
        else:
            self.waiting.remove(request)
        del self.requests[request.id], self._places[request.id]
        request.status = Status.FINISHED

    def check_integrity(self) -> None:
        check(self.config, self.memory, self.running, self.waiting, self.requests)

    def _stop(self, request: Request) -> None:
        self.running.remove(request, self._places[request.id])
        self.memory.drop(request)
