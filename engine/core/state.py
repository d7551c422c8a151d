"""Where every request stands, and the ways it can move."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.config import SchedulerConfig
from engine.core.fairness import FairnessConfig
from engine.core.gate import Gate
from engine.core.lanes import Lane
from engine.core.memory import Memory
from engine.core.plan import Move
from engine.core.policies.base import Policy
from engine.core.preemption import Preemption
from engine.core.request import Request, Status
from engine.core.room import Place, Room
from engine.core.running import Running
from engine.core.stats import SchedulerStats
from ranker.types import FinishReason, Forecast


class State:
    """Requests held: waiting in the room, perhaps paused with their blocks, or running.

    ``prefilling``: those running that do not decode yet. ``full``: those whose tokens exceed
    all memory; they end with the next plan. ``paused``: those waiting that kept their blocks, which
    others may take. ``entitled``: ids of those that were overdue when they came in; they give their
    slot to nobody. ``gate``: told of whatever may let somebody in.
    """

    def __init__(
        self, config: SchedulerConfig, lanes: Sequence[Lane], fairness: FairnessConfig | None
    ) -> None:
        self.config = config
        self.memory = Memory(config)
        self.room = Room(lanes, fairness, config.max_waiting)
        self.lane_configs = sorted(
            (lane.config for lane in lanes), key=lambda lane: lane.precedence
        )
        self.displaces = any(lane.policy.preempts or lane.config.reclaim for lane in lanes)
        self.running = Running([lane.name for lane in self.lane_configs])
        self.preemption = Preemption(config, self.memory)
        self.stats = SchedulerStats()
        self.requests: dict[str, Request] = {}
        self.prefilling: dict[str, Request] = {}
        self.full: dict[str, Request] = {}
        self.paused = Running([lane.name for lane in self.lane_configs])
        self.gate = Gate(config, self.memory, self.room, self.running, self.paused)
        self.entitled: set[str] = set()
        self.places: dict[str, Place] = {}
        self.rekey_at: dict[str, int] = {}
        self._policies: dict[str, list[Policy]] = {}  # those that know one that changed its lane
        self._dropped: dict[str, int] = {}  # tokens to compute again
        self._arrivals = 0

    def holds(self, request: Request) -> bool:
        """Whether this very request is held; another may have its id by now."""
        return self.requests.get(request.id) is request

    def lane(self, request: Request) -> Lane:
        return self.room.lane_of(request)

    # -- arriving, changing, leaving -------------------------------------------------------------

    def enter(self, request: Request, now: float, step: int) -> None:
        """A new request; its lane must exist and the room have space."""
        policy = self.lane(request).policy
        policy.arrived(request)
        place = (policy.key(request), self._arrivals)  # or ValueError, and nothing is held yet
        self._arrivals += 1
        self.requests[request.id] = request
        self.places[request.id] = place
        self._wait(request, now, step)

    def rekey(self, request: Request) -> None:
        """Ask the policy for a key again, and move the request to its new place."""
        lane = self.lane(request)
        old = self.places[request.id]
        new = self._placed(request, lane.policy)
        running = request.status is Status.RUNNING
        if new != old:
            self.places[request.id] = new
            if running:
                self.running.remove(lane.config.name, request, old)
                self.running.add(lane.config.name, request, new)
            else:
                self.room.rekey(request, new)
                if request.block_table:
                    self.paused.remove(lane.config.name, request, old)
                    self.paused.add(lane.config.name, request, new)
        if running:
            self._schedule_rekey(request, lane.policy)

    def reforecast(self, request: Request, forecast: Forecast) -> None:
        """A forecast came late, or another one."""
        request.forecast = forecast
        self.gate.admission.forecast_changed(request)
        self.gate.changed()  # less may be reckoned with, for it or for one that waits for it
        self.lane(request).policy.arrived(request)
        self.rekey(request)

    def move(self, request: Request, name: str, now: float, step: int) -> None:
        """Into another lane, at the place its policy gives.

        ``ValueError``, and nothing changes, when there is no such lane or its policy has no key.
        """
        old_lane, new_lane = self.lane(request), self.room.lane_named(name)
        if new_lane is old_lane:
            return
        old = self.places[request.id]
        known = self._policies.setdefault(request.id, [old_lane.policy])
        if not any(policy is new_lane.policy for policy in known):
            known.append(new_lane.policy)
            new_lane.policy.arrived(request)
        place = self._placed(request, new_lane.policy)  # or ValueError, and nothing has moved yet
        running = request.status is Status.RUNNING
        if running:
            self.running.remove(old_lane.config.name, request, old)
        else:
            self.room.remove(request)
            self._unpause(request)
        request.lane = name
        self.places[request.id] = place
        if running:
            self.running.add(new_lane.config.name, request, place)
            self.room.moved(request)
            self._schedule_rekey(request, new_lane.policy)
        else:
            self.room.push(request, place, now, step)
            if request.block_table:
                self.paused.add(new_lane.config.name, request, place)

    def leave(self, request: Request, now: float) -> None:
        """It ended; ``finish_reason`` is set."""
        lane = self.lane(request)
        if request.status is Status.RUNNING:
            self._stop(request)
        else:
            self.room.remove(request)
            self.memory.unwant(request)
            self._unpause(request)
        self.memory.forget(request, spoiled=request.finish_reason is FinishReason.ERROR)
        self.room.settle(request, now)
        del self.requests[request.id], self.places[request.id]
        self.full.pop(request.id, None)
        self._dropped.pop(request.id, None)
        request.status = Status.FINISHED
        self.gate.changed()
        self.gate.admission.ended(request)
        self.entitled.discard(request.id)
        for policy in self._policies.pop(request.id, (lane.policy,)):
            policy.observe(request, now)

    def settle(self) -> None:
        """The moves of the last plan were carried out; what they read may be free now."""
        self.gate.admission.changed()
        free = self.memory.free
        self.memory.settle()
        if self.memory.free != free:
            self.gate.changed()

    # -- running, pausing, giving up memory ------------------------------------------------------

    def admit(self, request: Request, now: float) -> tuple[tuple[Move, ...], tuple[Move, ...]]:
        """Let a head of the room run; its memory must be there. Blocks to swap in, and to copy."""
        memory, lane = self.memory, self.lane(request)
        if self.displaces and self.room.overdue(request, now):
            # Or it would be stopped again at once for the reason for which it had to wait.
            self.entitled.add(request.id)
        self._unpause(request)
        self.room.pop(request, now)
        memory.unwant(request)
        moves: tuple[Move, ...] = ()
        copies: tuple[Move, ...] = ()
        if request.host_blocks:
            moves = memory.swap_in(request)
            self.stats.swapped_tokens += len(moves) * self.config.block_size
        else:
            # All known tokens at once: nobody is left half prefilled for want of memory.
            copy = memory.admit(request)
            copies = () if copy is None else (copy,)
        again = self._dropped.pop(request.id, 0) - request.computed_tokens
        self.stats.recomputed_tokens += max(0, again)
        request.status = Status.RUNNING
        if request.first_scheduled is None:
            request.first_scheduled = now
        else:
            self.places[request.id] = self._placed(request, lane.policy)
        if request.prefills:
            self.prefilling[request.id] = request
        self.running.add(lane.config.name, request, self.places[request.id])
        self._schedule_rekey(request, lane.policy)
        return moves, copies

    def pause(self, request: Request, now: float, step: int) -> None:
        """It gives up its slot and waits with its blocks, which others may take."""
        self._stop(request)
        self._back(request, now, step)
        self.paused.add(self.lane(request).name, request, self.places[request.id])

    def evict(self, request: Request, now: float, step: int) -> tuple[Move, ...]:
        """Take the memory of a running or paused request; the blocks that go to the host."""
        running = request.status is Status.RUNNING
        swap = self.preemption.swaps(request)
        if running:
            self._stop(request)
        else:
            self._unpause(request)
        moves: tuple[Move, ...] = ()
        if swap:
            moves = self.memory.swap_out(request)
            self.stats.swapped_tokens += len(moves) * self.config.block_size
        else:
            self._dropped[request.id] = request.computed_tokens
            self.memory.drop(request)
        request.evictions += 1
        self.gate.changed()
        if running:
            self._back(request, now, step)
        return moves

    def _placed(self, request: Request, policy: Policy) -> Place:
        """Where it belongs by its key as it is now; its number stays."""
        return policy.key(request), self.places[request.id][1]

    def _wait(self, request: Request, now: float, step: int) -> None:
        self.memory.want(request)
        self.room.push(request, self.places[request.id], now, step)

    def _back(self, request: Request, now: float, step: int) -> None:
        request.status = Status.WAITING
        request.preemptions += 1
        self.places[request.id] = self._placed(request, self.lane(request).policy)
        self._wait(request, now, step)

    def _unpause(self, request: Request) -> None:
        """Call before its blocks, its lane or its place change."""
        if request.block_table:
            self.paused.remove(self.lane(request).name, request, self.places[request.id])

    def _stop(self, request: Request) -> None:
        self.running.remove(self.lane(request).config.name, request, self.places[request.id])
        self.prefilling.pop(request.id, None)
        self.rekey_at.pop(request.id, None)
        self.gate.admission.changed()
        self.gate.changed()

    def _schedule_rekey(self, request: Request, policy: Policy) -> None:
        after = policy.rekey_after(request)
        if after is None:
            self.rekey_at.pop(request.id, None)
        else:
            self.rekey_at[request.id] = request.output_tokens + after
