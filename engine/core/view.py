"""What an observer may ask of a scheduler."""

from __future__ import annotations

from dataclasses import replace

from engine.core.integrity import check
from engine.core.lanes import Lane
from engine.core.request import Request, Status
from engine.core.state import State
from engine.core.stats import SchedulerStats


class View:
    """Questions that change nothing."""

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def num_running(self) -> int:
        return len(self._state.running)

    @property
    def num_waiting(self) -> int:
        return len(self._state.room)

    @property
    def has_work(self) -> bool:
        return bool(self._state.requests)

    @property
    def kv_usage(self) -> float:
        """Share of KV blocks that are held, 0 to 1."""
        return self._state.memory.usage

    @property
    def stats(self) -> SchedulerStats:
        """The counters as they are now."""
        return replace(self._state.stats, memory=self._state.memory.stats)

    @property
    def running(self) -> list[Request]:
        """Running requests, lane by lane in policy order."""
        return list(self._state.running)

    def waiting_in(self, lane: str) -> int:
        """Requests that wait in a lane."""
        return self._state.room.waiting_in(lane)

    def position(self, request_id: str) -> int | None:
        """Requests of its lane that wait and go before it by its policy, fairness aside; 0 once it
        runs, None when it is not held. O(waiting)."""
        request = self.get(request_id)
        if request is None or request.status is not Status.WAITING:
            return None if request is None else 0
        places = self._state.places
        mine = places[request_id]
        return sum(places[other.id] < mine for other in self._state.room.waits_in(request.lane))

    def running_in(self, lane: str) -> int:
        """Requests of a lane that run."""
        return len(self._state.running.by_lane[lane])

    def lane_of(self, request: Request) -> Lane:
        """Raises ``ValueError`` naming the lanes there are."""
        return self._state.lane(request)

    def get(self, request_id: str) -> Request | None:
        """The request of that id while it waits or runs."""
        return self._state.requests.get(request_id)

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` when requests, order, blocks or counts contradict each other."""
        check(self._state)
