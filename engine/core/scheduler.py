"""Continuous batching in two calls: ``schedule`` decides a step, ``commit`` records it.

Iteration-level scheduling as in Orca (Yu et al., OSDI 2022), paged memory with preemption by
recompute as in vLLM (Kwon et al. 2023), chunked prefill with decodes first as in Sarathi-Serve
(Agrawal et al. 2024, arXiv 2403.02310). One thread at a time; no clock, no randomness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from engine.core.config import SchedulerConfig
from engine.core.plan import Plan
from engine.core.planner import Planner
from engine.core.policies.base import Policy
from engine.core.request import Request, Status
from engine.core.state import State
from ranker.types import FinishReason

__all__ = ["QueueFull", "Scheduler", "SchedulerConfig"]


class QueueFull(Exception):
    """As many requests wait as may wait; try again later."""


class Scheduler:
    """Holds requests from ``add`` until they finish or are aborted, and their KV blocks.

    ``schedule`` moves requests and memory, ``commit`` moves progress. A plan that is not empty
    must be committed before the next is made; a step that failed is committed with every request
    of the plan in ``finished`` as ``ERROR``. ``abort`` is safe at any point between the two.
    """

    def __init__(self, config: SchedulerConfig, policy: Policy) -> None:
        self.config = config
        self.policy = policy
        self._state = State(config)
        self._arrivals = 0
        self._plans = 0
        self._planned: dict[str, Request] = {}
        self._outstanding: Plan | None = None

    # -- what an observer may ask ----------------------------------------------------------------

    @property
    def num_running(self) -> int:
        return len(self._state.running)

    @property
    def num_waiting(self) -> int:
        return len(self._state.waiting)

    @property
    def has_work(self) -> bool:
        return bool(self._state.requests)

    @property
    def kv_usage(self) -> float:
        """Share of KV blocks that are held, 0 to 1."""
        return self._state.memory.usage

    @property
    def preemptions(self) -> int:
        """Times that any request lost its blocks."""
        return self._state.preemptions

    @property
    def running(self) -> list[Request]:
        """Running requests in policy order."""
        return list(self._state.running)

    def get(self, request_id: str) -> Request | None:
        """The request of that id while it waits or runs."""
        return self._state.requests.get(request_id)

    # -- requests come and go --------------------------------------------------------------------

    def add(self, request: Request) -> None:
        """Queue a new request.

        Raises ``QueueFull`` when ``max_waiting`` wait already, and ``ValueError`` when the id is
        in use, a field is out of range, or the prompt and one answer token exceed all memory.
        """
        self._validate(request)
        if self.num_waiting >= self.config.max_waiting:
            raise QueueFull(f"{self.num_waiting} requests wait already")
        self.policy.arrived(request)
        self._state.enter(request, (self.policy.key(request), self._arrivals))
        self._arrivals += 1

    def abort(self, request_id: str, now: float) -> Request | None:
        """Drop a request and free its blocks at once; None when the id is unknown or finished."""
        request = self.get(request_id)
        if request is not None:
            self._end(request, FinishReason.ABORT, now)
        return request

    # -- a step ----------------------------------------------------------------------------------

    def schedule(self, now: float) -> Plan:
        """Decide the next step: decodes, then prefill chunks, then newly admitted requests.

        An empty plan means that nothing can run and needs no commit. Raises ``RuntimeError`` when
        the previous plan has not been committed.
        """
        if self._outstanding is not None:
            raise RuntimeError(f"plan {self._outstanding.number} has not been committed")
        step = Planner(self._state)
        step.run()
        for request in step.admitted:
            if request.first_scheduled is None:
                request.first_scheduled = now
        self._plans += 1
        plan = Plan(self._plans, tuple(step.steps), tuple(step.preempted), step.exhausted)
        self._planned = step.planned
        self._outstanding = plan if plan else None
        return plan

    def commit(self, plan: Plan, finished: Mapping[str, FinishReason], now: float) -> list[Request]:
        """Record that ``plan`` ran: each step with ``samples`` yielded one token.

        Requests named in ``finished`` end, as do the exhausted; both are returned, with
        ``finish_reason`` set. ``ERROR`` yields no token. Requests aborted since are passed over.
        Raises ``ValueError`` when the plan is not the outstanding one or ``finished`` names a
        request that is held but not part of it.
        """
        if plan is not self._outstanding:
            raise ValueError(f"plan {plan.number} is not the plan to commit")
        for request_id in finished:
            if request_id not in self._planned and self.get(request_id) is not None:
                raise ValueError(f"finished names {request_id!r}, which plan {plan.number} lacks")
        planned, self._planned, self._outstanding = self._planned, {}, None
        ended: list[Request] = []
        for step in plan.steps:
            request = planned[step.request_id]
            if not self._state.holds(request):
                continue
            reason = finished.get(request.id)
            if reason is not FinishReason.ERROR:
                request.computed_tokens = step.start + step.tokens
                request.output_tokens += step.samples
            if reason is not None:
                ended.append(self._end(request, reason, now))
        for request_id in plan.exhausted:
            request = planned[request_id]
            if self._state.holds(request):
                reason = finished.get(request_id, FinishReason.LENGTH)
                ended.append(self._end(request, reason, now))
        return ended

    # -- skipping ahead (simulation) -------------------------------------------------------------

    def quiet_steps(self, limit: int) -> int:
        """How many steps, at most ``limit``, are sure to decode exactly the running requests.

        That holds while nobody prefills, nobody waiting can be admitted, and memory suffices,
        provided that no request arrives (unless all slots are taken), ends or is aborted.
        """
        running = self.running
        if self._outstanding is not None or not running or self._state.admissible() is not None:
            return 0
        if any(r.pending_tokens != 1 or r.output_tokens == 0 for r in running):
            return 0
        while limit > 0 and not self._state.memory.can_all_grow(running, limit):
            limit //= 2
        return max(0, limit)

    def skip(self, steps: int) -> None:
        """Take ``steps`` quiet steps at once, as that many plans and commits would have.

        Raises ``ValueError`` when ``quiet_steps`` does not allow that many.
        """
        if steps < 1 or self.quiet_steps(steps) < steps:
            raise ValueError(f"cannot skip {steps} steps; ask quiet_steps first")
        for request in self._state.running:
            request.computed_tokens += steps
            request.output_tokens += steps
            self._state.memory.hold(request, request.computed_tokens)

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` when requests, order, blocks or counts contradict each other."""
        self._state.check_integrity()

    def _validate(self, request: Request) -> None:
        if self.get(request.id) is not None:
            raise ValueError(f"request.id {request.id!r} is in use")
        if request.status is not Status.WAITING or request.output_tokens or request.computed_tokens:
            raise ValueError(f"request {request.id!r} is not new; build a Request per generation")
        if request.prompt_tokens < 1:
            raise ValueError(
                f"request.prompt_tokens must be at least 1, is {request.prompt_tokens}"
            )
        if not math.isfinite(request.arrival):
            raise ValueError(f"request.arrival must be finite seconds, got {request.arrival}")
        if request.prompt_tokens + 1 > self.config.capacity:
            raise ValueError(
                f"request.prompt_tokens is {request.prompt_tokens}, but prompt and answer together "
                f"can hold {self.config.capacity} tokens; shorten the prompt or add KV blocks"
            )

    def _end(self, request: Request, reason: FinishReason, now: float) -> Request:
        self._state.leave(request)
        request.finish_reason = reason
        self.policy.observe(request, now)
        return request
