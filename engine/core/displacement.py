"""Which waiting request may take the slot of which running one, memory permitting."""

from __future__ import annotations

from collections.abc import Iterator, Set

from engine.core import victims
from engine.core.lanes import Lane
from engine.core.request import Request
from engine.core.state import State


class Displacement:
    """Pairs of a waiting request and the running one that gives it its slot.

    Within a lane whose policy preempts, the larger key gives way; equal keys never do, so that a
    storm of equals cannot ping-pong. A lane that reclaims takes back slots that others hold beyond
    their share, and any slot of lanes of later precedence. ``stopped`` and ``admitted``: ids that
    gave way and that came in during this step; neither changes twice in it.
    """

    def __init__(self, state: State, stopped: Set[str], admitted: Set[str]) -> None:
        self._state = state
        self._stopped = stopped
        self._admitted = admitted

    def next(self, now: float) -> tuple[Request, Request] | None:
        """The next pair; None when nobody has to give way."""
        state = self._state
        slots_left = len(state.running) < state.config.max_num_seqs
        for head in state.room.heads(now):
            if head.id in self._stopped:
                continue
            if slots_left and state.fits(head):
                return None  # admitted without anybody's loss
            lane = state.lane(head)
            for victim in (*self._for_order(lane, head), *self._for_lane(lane)):
                if self._memory_suffices(head, victim):
                    return head, victim
        return None

    def _for_order(self, lane: Lane, head: Request) -> Iterator[Request]:
        if not lane.policy.preempts:
            return
        places = self._state.places
        for place, request in self._state.running.by_lane[lane.config.name].backwards():
            if place[0] <= places[head.id][0]:
                return
            if self._may_stop(request):
                yield request
                return

    def _for_lane(self, lane: Lane) -> Iterator[Request]:
        state, mine = self._state, lane.config
        if not mine.reclaim:
            return
        running, slots = state.running.by_lane, state.config.max_num_seqs
        below = len(running[mine.name]) + 1 <= state.room.share_of_slots(mine.name, slots)
        for other in victims.lanes(state):
            if other.name == mine.name or other.precedence < mine.precedence:
                continue
            if other.precedence == mine.precedence:
                lent = len(running[other.name]) > state.room.share_of_slots(other.name, slots)
                if not (below and lent):
                    continue
            for _, request in running[other.name].backwards():
                if self._may_stop(request):
                    yield request
                    return

    def _may_stop(self, request: Request) -> bool:
        return request.id not in self._admitted and request.id not in self._state.full

    def _memory_suffices(self, head: Request, victim: Request) -> bool:
        state = self._state
        found = state.obtainable(head, victim)
        return state.memory.admission_need(head) <= found
