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
    their share, and any slot of lanes of later precedence. Nobody takes the slot of one that was
    overdue when it came in: it had waited for as long as anybody shall.

    ``stopped`` and ``admitted``: ids that gave way and that came in during this step; neither
    changes twice in it. Asking changes nothing.
    """

    def __init__(self, state: State, stopped: Set[str], admitted: Set[str]) -> None:
        self._state = state
        self._stopped = stopped
        self._admitted = admitted

    def next(self, now: float) -> tuple[Request, Request] | None:
        """The next pair; None when nobody has to give way."""
        state = self._state
        if len(state.running) < state.config.max_num_seqs:
            # Memory is what is short, and the first head waits for it: nobody overtakes that one.
            head = state.room.head(now)
            if head is None or head.id in self._stopped or state.gate.fits(head):
                return None
            return self._pair(head)
        heads = (head for head in state.room.heads(now) if head.id not in self._stopped)
        return next((pair for pair in map(self._pair, heads) if pair is not None), None)

    def _pair(self, head: Request) -> tuple[Request, Request] | None:
        state, lane = self._state, self._state.lane(head)
        need = state.memory.admission_need(head)
        for victims_of in (self._for_order(lane, head), self._for_lane(lane)):
            for victim in victims_of:
                if state.gate.obtainable(head, need, victim):
                    return head, victim
        return None

    def _for_order(self, lane: Lane, head: Request) -> Iterator[Request]:
        """The last in its lane, if it goes after ``head``. One that began to prefill since it was
        keyed may not any more: it is stopped for its key as it is now."""
        if not lane.policy.preempts:
            return
        mine = self._state.places[head.id][0]
        for place, request in self._state.running.by_lane[lane.config.name].backwards():
            if place[0] <= mine:
                return
            if self._may_stop(request) and lane.policy.key(request) > mine:
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
        state, name = self._state, request.id
        return not (name in self._admitted or name in state.full or name in state.entitled)
