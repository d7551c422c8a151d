"""One step's decisions: who decodes, who prefills, who gives way, who comes in."""

from __future__ import annotations

from engine.core.plan import Step
from engine.core.request import Request, Status
from engine.core.state import State


class Planner:
    """Plans one step over ``state`` and is thrown away. ``planned``: who takes part, by id."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._budget = state.config.max_num_batched_tokens
        self._stalled = False
        self.steps: list[Step] = []
        self.planned: dict[str, Request] = {}
        self.preempted: list[str] = []
        self.admitted: list[Request] = []
        self.exhausted: tuple[str, ...] = ()

    def run(self) -> None:
        self._decodes()
        self._prefills()
        # Whoever lost memory in this step must not see it handed to a newcomer in the same step.
        if not self.preempted and not self._stalled:
            self._admissions()
        if not self.steps and len(self._state.running):
            # Each may evict those behind it, and still nobody moved: one is left, and it is full.
            request = next(iter(self._state.running))
            self.exhausted = (request.id,)
            self.planned[request.id] = request

    def _decodes(self) -> None:
        """One token for each request that is computed up to its newest token."""
        state = self._state
        for request in state.running:
            if request.status is not Status.RUNNING or request.pending_tokens != 1:
                continue
            while not state.memory.can_hold(request, request.total_tokens):
                victim = state.running.last_outside(self.planned)
                if victim is request:
                    # It is the last in order. It stands still with its blocks, which costs
                    # nothing, and loses them only when somebody before it needs them.
                    self._stalled = True
                    break
                state.preempt(victim)
                self.preempted.append(victim.id)
            else:
                state.memory.hold(request, request.total_tokens)
                self._take(request, 1)

    def _prefills(self) -> None:
        """Chunks for running requests whose tokens are not all computed."""
        for request in self._state.running:
            if self._budget < 1:
                return
            if request.id not in self.planned and request.pending_tokens > 1:
                self._take(request, min(request.pending_tokens, self._budget))

    def _admissions(self) -> None:
        """Waiting requests in order while slots, budget and memory last; nobody overtakes."""
        while self._budget > 0 and self._state.admissible() is not None:
            request = self._state.admit()
            self.admitted.append(request)
            self._take(request, min(request.pending_tokens, self._budget))

    def _take(self, request: Request, count: int) -> None:
        self._budget -= count
        self.planned[request.id] = request
        self.steps.append(
            Step(
                request_id=request.id,
                start=request.computed_tokens,
                tokens=count,
                block_table=request.block_table,
                samples=count == request.pending_tokens,
            )
        )
