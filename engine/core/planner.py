"""One step's decisions: who gives way, who decodes, who prefills, who comes in."""

from __future__ import annotations

from collections.abc import Mapping

from engine.core import victims
from engine.core.displacement import Displacement
from engine.core.plan import Move, Step
from engine.core.request import Request
from engine.core.speculation import Speculation
from engine.core.state import State


class Planner:
    """Plans one step over ``state`` and is thrown away. ``planned``: who takes part, by id."""

    def __init__(
        self, state: State, speculation: Speculation | None, now: float, number: int
    ) -> None:
        self._state = state
        self._speculation = speculation
        self._now = now
        self._number = number
        self._budget = state.config.max_num_batched_tokens
        self._starved = False  # somebody lacked memory: newcomers get none
        self._admitted: set[str] = set()
        self._stopped: set[str] = set()  # lost slot or memory, and do not return in this step
        self.steps: list[Step] = []
        self.planned: dict[str, Request] = {}
        self.preempted: list[str] = []
        self.swap_out: list[Move] = []
        self.swap_in: list[Move] = []
        self.copies: list[Move] = []
        self.exhausted: tuple[str, ...] = ()

    def run(self) -> None:
        state = self._state
        if state.full:
            # They cannot grow whoever gives way. Planned first, so that nobody takes their blocks.
            self.exhausted = tuple(state.full)
            self.planned.update(state.full)
        if state.displaces and len(state.room):
            self._displace()
        self._decodes()
        if state.prefilling:
            self._prefills()
        # Whoever lost memory in this step must not see it handed to a newcomer in the same step.
        if not self._starved and len(state.room):
            self._admissions()

    # -- slots for those who go before others ----------------------------------------------------

    def _displace(self) -> None:
        """Waiting requests take the slots of running ones that go after them.

        Only as many as can start to compute in this step: nobody stops for one that cannot begin.
        Prompts under way that fill the step are let through for the same reason: were one stopped
        for the next, and its blocks taken, prefills would undo each other (mlfq with little memory:
        half as many preemptions again).
        """
        state = self._state
        spare = self._spare()
        displacement = Displacement(state, self._stopped, self._admitted)
        while spare > 0:
            pair = displacement.next(self._now)
            if pair is None:
                return
            head, victim = pair
            state.pause(victim, self._now, self._number)
            if state.lane(head) is state.lane(victim):
                state.stats.preempted_for_order += 1
            else:
                state.stats.preempted_for_lane += 1
            self.preempted.append(victim.id)
            self._stopped.add(victim.id)
            self._make_room(head)
            spare -= head.pending_tokens  # before its cache hits are known: at most that many
            self._admit(head)

    # -- those that run --------------------------------------------------------------------------

    def _decodes(self) -> None:
        """One token, and drafts, for each request that is computed up to its newest token."""
        state, planned, steps = self._state, self.planned, self.steps
        prefilling, size = state.prefilling, state.config.block_size
        drafts = self._drafts()
        for request in state.running:
            name = request.id
            if name in planned or name in prefilling:
                continue
            computed = request.computed_tokens
            wanted = drafts.get(name, 0) if drafts else 0
            if wanted or len(request.block_table) * size <= computed:
                if request.block_table == () or not self._grow(request):
                    continue
                if wanted:
                    self._take(request, 1, self._room_for(request, wanted))
                    continue
            planned[name] = request
            steps.append(Step(name, computed, 1, request.block_table, True))
            self._budget -= 1

    def _grow(self, request: Request) -> bool:
        """Blocks for its next token, from others if need be. False: it stands still or was taken
        by one before it."""
        state = self._state
        memory = state.memory
        need = memory.missing(request, request.total_tokens)
        if need > memory.free and not self._take_memory(need, request):
            # It is the last in order. It stands still with its blocks, which costs nothing, and
            # loses them only when somebody before it needs them.
            self._starved = True
            return False
        memory.grow(request, request.total_tokens)
        return True

    def _take_memory(self, need: int, needer: Request) -> bool:
        state = self._state
        while state.memory.free < need:
            if self._evict_paused(needer):
                continue
            # What a newcomer is given is moved into place by this very plan: not to be taken yet.
            spared = self._admitted | self.planned.keys()
            victim = state.preemption.victim(victims.for_memory(state, needer, spared))
            if victim is None:
                return False
            self.swap_out += state.evict(victim, self._now, self._number)
            state.stats.preempted_for_memory += 1
            self.preempted.append(victim.id)
            self._stopped.add(victim.id)
            self._starved = True
        return True

    def _make_room(self, newcomer: Request) -> None:
        """Take blocks of paused requests, which must suffice, until ``newcomer`` can come in."""
        memory = self._state.memory
        while memory.free < memory.admission_need(newcomer):
            taken = self._evict_paused(newcomer)
            assert taken, "what was said to be obtainable is not"

    def _evict_paused(self, needer: Request) -> bool:
        """Take the blocks of the paused request that is last in order, if there is one."""
        state = self._state
        last = victims.paused(state, needer)
        if last is None:
            return False
        self.swap_out += state.evict(last, self._now, self._number)
        self._stopped.add(last.id)
        state.stats.evicted_paused += 1
        return True

    def _prefills(self) -> None:
        """Chunks for running requests that do not decode yet, in order."""
        state = self._state
        waiting = state.prefilling
        for request in state.running if len(waiting) > 1 else list(waiting.values()):
            if self._budget < 1:
                return
            if request.id in waiting and request.id not in self.planned:
                self._take(request, min(request.pending_tokens, self._budget), 0)

    # -- newcomers -------------------------------------------------------------------------------

    def _admissions(self) -> None:
        """Waiting requests in order while slots, budget and memory last; nobody overtakes."""
        state = self._state
        while self._budget > 0:
            request = state.gate.admissible(self._now)
            if request is None or request.id in self._stopped:
                return
            self._make_room(request)
            self._admit(request)
            self._take(request, min(request.pending_tokens, self._budget), 0)

    def _admit(self, request: Request) -> None:
        moves, copies = self._state.admit(request, self._now)
        self._admitted.add(request.id)
        self.swap_in += moves
        self.copies += copies

    def _take(self, request: Request, tokens: int, drafts: int) -> None:
        self._budget -= tokens + drafts
        self.planned[request.id] = request
        self.steps.append(
            Step(
                request_id=request.id,
                start=request.computed_tokens,
                tokens=tokens + drafts,
                block_table=request.block_table,
                samples=tokens == request.pending_tokens,
                drafts=drafts,
            )
        )

    def _spare(self) -> int:
        """Tokens of the budget that the decodes and prefills of those that run leave."""
        prefilling = self._state.prefilling
        decodes = len(self._state.running) - len(prefilling)
        prefills = sum(request.pending_tokens for request in prefilling.values())
        return self._budget - decodes - prefills

    # -- speculation -----------------------------------------------------------------------------

    def _drafts(self) -> Mapping[str, int]:
        """Drafts of each that decodes: from the budget that decodes and prefills leave."""
        if self._speculation is None:
            return {}
        state = self._state
        head = state.gate.admissible(self._now)
        newcomer = 0 if head is None else head.pending_tokens
        names = [each.id for each in state.running if each.id not in state.prefilling]
        return self._speculation.choose(names, self._spare() - newcomer)

    def _room_for(self, request: Request, drafts: int) -> int:
        """Drafts never cost anybody memory: only what free blocks hold."""
        memory = self._state.memory
        size = self._state.config.block_size
        spare = (len(request.block_table) + memory.free) * size - request.total_tokens
        drafts = max(0, min(drafts, spare, self._state.config.capacity - request.total_tokens))
        memory.grow(request, request.total_tokens + drafts)
        return drafts
