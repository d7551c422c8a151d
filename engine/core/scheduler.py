"""Continuous batching in two calls: ``schedule`` decides a step, ``commit`` records it.

Iteration-level scheduling as in Orca (Yu et al., OSDI 2022), paged memory with preemption as in
vLLM (Kwon et al. 2023), chunked prefill with decodes first as in Sarathi-Serve (Agrawal et al.
2024, arXiv 2403.02310). One thread at a time; no clock, no randomness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from engine.core import ahead, progress
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.distrust import Distrust
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane, LaneConfig
from engine.core.plan import Plan, Step
from engine.core.planner import Planner
from engine.core.policies.base import Policy
from engine.core.request import Request, Status
from engine.core.room import QueueFull
from engine.core.speculation import Speculation, SpeculationConfig
from engine.core.state import State
from engine.core.view import View
from ranker.types import FinishReason, Forecast

__all__ = ["QueueFull", "Scheduler", "SchedulerConfig"]

#: Requests looked at by a plan after trust fell: a long queue shall not hold a step up.
_DISTRUSTED = 256


class Scheduler(View):
    """Holds requests from ``add`` until they finish or are aborted, and their KV blocks.

    ``schedule`` moves requests and memory, ``commit`` moves progress. A plan that is not empty
    must be committed before the next is made; a step that failed is committed with every request
    of the plan in ``finished`` as ``ERROR``. ``abort`` is safe at any point between the two.

    ``lanes``: queue classes, each with a policy of its own; a policy alone is one lane for all.
    ``fairness``: among tenants. ``speculation``: draft tokens, which needs ``config.cost``.

    Raises ``ValueError`` when speculation lacks a cost model, or lanes contradict each other.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        lanes: Policy | Sequence[Lane],
        *,
        fairness: FairnessConfig | None = None,
        speculation: SpeculationConfig | None = None,
    ) -> None:
        if not isinstance(lanes, Sequence):
            lanes = [Lane(LaneConfig("default"), lanes)]
        self.config = config
        self.lanes = tuple(lanes)
        super().__init__(State(config, self.lanes, fairness))
        self._distrust = Distrust()
        self._speculation = _speculation(speculation, config.cost)
        self._plans = 0
        self._planned: dict[str, Request] = {}
        self._outstanding: Plan | None = None

    # -- requests come, change and go ------------------------------------------------------------

    def add(self, request: Request, now: float | None = None) -> None:
        """Queue a new request; ``now`` is its arrival when not given. When its forecast has less
        trust than those before it, theirs in its tenant and lane have no more either, from the
        next plans on: each looks at some of them.

        Raises ``QueueFull`` when as many wait as may wait, in all or in its lane, and
        ``ValueError`` when the id is in use, the lane unknown, a field out of range, or the prompt
        and one answer token exceed all memory.
        """
        self._validate(request)
        now = request.arrival if now is None else now
        self._state.room.check_room(request, now)
        self._state.enter(request, now, self._plans)
        self._distrust.arrived(request)

    def abort(self, request_id: str, now: float) -> Request | None:
        """Drop a request and free its blocks at once; None when the id is unknown or finished."""
        request = self.get(request_id)
        if request is not None:
            self._end(request, FinishReason.ABORT, now)
        return request

    def move(self, request_id: str, lane: str, now: float) -> bool:
        """Put a request into another lane, waiting or running; False when it is not held.

        Raises ``ValueError`` when there is no such lane.
        """
        request = self.get(request_id)
        if request is None:
            return False
        self._state.move(request, lane, now, self._plans)
        if (forecast := self._distrust.told(request)) is not None:
            self._state.reforecast(request, forecast)
        self._distrust.changed(request)
        return True

    def reforecast(self, request_id: str, forecast: Forecast) -> bool:
        """A forecast that came late, or another one; False when the request is not held."""
        request = self.get(request_id)
        if request is None:
            return False
        self._state.reforecast(request, forecast)
        self._distrust.changed(request)
        return True

    # -- a step ----------------------------------------------------------------------------------

    def schedule(self, now: float) -> Plan:
        """Decide the next step: decodes, then prefill chunks, then newly admitted requests.

        An empty plan means that nothing can run and needs no commit. Raises ``RuntimeError`` when
        the previous plan has not been committed.
        """
        if self._outstanding is not None:
            raise RuntimeError(f"plan {self._outstanding.number} has not been committed")
        state = self._state
        state.settle()
        for request, forecast in self._distrust.take(_DISTRUSTED):
            state.reforecast(request, forecast)
        if len(state.room):
            for request in state.room.starved(now, self._plans):
                state.lane(request).policy.starved(request)
                state.rekey(request)
        self._plans += 1
        step = Planner(state, self._speculation, now, self._plans)
        step.run()
        plan = Plan(
            self._plans,
            tuple(step.steps),
            tuple(step.preempted),
            step.exhausted,
            tuple(step.swap_out),
            tuple(step.swap_in),
            tuple(step.copies),
        )
        self._planned = step.planned
        self._outstanding = plan if plan else None
        return plan

    def commit(
        self,
        plan: Plan,
        finished: Mapping[str, FinishReason],
        now: float,
        accepted: Mapping[str, int] | None = None,
        drafted: Mapping[str, int] | None = None,
    ) -> list[Request]:
        """Record that ``plan`` ran: each step with ``samples`` yielded one token, and as many more
        as ``accepted`` says of its drafts; ``drafted``: how many were proposed, all when ``None``.

        Requests named in ``finished`` end, as do the exhausted; both are returned, with
        ``finish_reason`` set. ``ERROR`` yields no token. Requests aborted since are passed over.
        Raises ``ValueError`` when the plan is not the outstanding one, ``finished`` names a
        request that is held but not part of it, or more drafts were accepted than proposed, or
        proposed than planned.
        """
        if plan is not self._outstanding:
            raise ValueError(f"plan {plan.number} is not the plan to commit")
        for request_id in finished:
            if request_id not in self._planned and self.get(request_id) is not None:
                raise ValueError(f"finished names {request_id!r}, which plan {plan.number} lacks")
        if accepted or drafted:
            progress.check_drafts(plan, accepted or {}, drafted)
        planned, self._planned, self._outstanding = self._planned, {}, None
        if plan.swap_in:
            progress.swapped_in(self._state, planned.values(), finished)
        ended: list[Request] = []
        for step in plan.steps:
            request = planned[step.request_id]
            if not self._state.holds(request) or request.status is not Status.RUNNING:
                continue
            reason = finished.get(request.id)
            if reason is not FinishReason.ERROR:
                taken = 0
                if step.drafts:
                    taken = accepted.get(request.id, 0) if accepted else 0
                    proposed = step.drafts if drafted is None else drafted.get(request.id, 0)
                    self._judged(step, proposed, taken, ends=reason is not None)
                progress.advance(self._state, request, step, taken)
            if reason is not None:
                ended.append(self._end(request, reason, now))
            else:
                progress.review(self._state, request)
        for request_id in plan.exhausted:
            request = planned[request_id]
            if self._state.holds(request):
                reason = finished.get(request_id, FinishReason.LENGTH)
                ended.append(self._end(request, reason, now))
        return ended

    # -- skipping ahead (simulation) -------------------------------------------------------------

    def next_event(self, now: float) -> float | None:
        """Seconds of the clock at which time alone changes what is scheduled; None: never."""
        if self._distrust.pending:
            return math.nextafter(now, math.inf)  # the very next plan may differ
        return self._state.room.next_event(now)

    def quiet_steps(self, limit: int, now: float) -> int:
        """How many steps, at most ``limit``, are sure to decode exactly the running requests.

        Provided that no request arrives that could run, none ends or is aborted, and no
        ``next_event`` comes. 0 with speculation: each of its steps may differ; and while those who
        wait are yet to be trusted less.
        """
        if self._outstanding is not None or self._speculation is not None:
            return 0
        if self._distrust.pending:
            return 0
        return ahead.quiet_steps(self._state, limit, now, self._plans)

    def skip(self, steps: int, now: float) -> None:
        """Take ``steps`` quiet steps at once, as that many plans and commits would have.

        Raises ``ValueError`` when ``quiet_steps`` does not allow that many.
        """
        if steps < 1 or self.quiet_steps(steps, now) < steps:
            raise ValueError(f"cannot skip {steps} steps; ask quiet_steps first")
        ahead.skip(self._state, steps)
        self._plans += steps

    def check_integrity(self) -> None:
        super().check_integrity()
        self._distrust.check_integrity(self._state.requests)

    # -- inside ----------------------------------------------------------------------------------

    def _judged(self, step: Step, proposed: int, accepted: int, ends: bool) -> None:
        assert self._speculation is not None
        if not ends:  # or drafts behind the end would count as refused
            self._speculation.record(step.request_id, step.drafts, proposed, accepted)
        self._state.stats.drafts += proposed > 0
        self._state.stats.drafted_tokens += proposed
        self._state.stats.accepted_tokens += accepted

    def _validate(self, request: Request) -> None:
        if self.get(request.id) is not None:
            raise ValueError(f"request.id {request.id!r} is in use")
        request.check_new(self.config.capacity)

    def _end(self, request: Request, reason: FinishReason, now: float) -> Request:
        request.finish_reason = reason
        if self._speculation is not None:
            self._speculation.forget(request.id)
        self._distrust.left(request)
        self._state.leave(request, now)
        return request


def _speculation(config: SpeculationConfig | None, cost: CostModel | None) -> Speculation | None:
    if config is None:
        return None
    if cost is None:
        raise ValueError("speculation needs config.cost: drafts pay only where steps are cheap")
    return Speculation(config, cost)
