"""Continuous batching in two calls: ``schedule`` decides a step, ``commit`` records it.

Iteration-level scheduling as in Orca (Yu et al., OSDI 2022), paged memory with preemption by
recompute as in vLLM (Kwon et al. 2023), chunked prefill with decodes first as in Sarathi-Serve
(Agrawal et al. 2024, arXiv 2403.02310). One thread at a time; no clock, no randomness.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Mapping

from engine.core.blocks import BlockPool
from engine.core.config import SchedulerConfig
from engine.core.plan import Plan, Step
from engine.core.policies.base import Policy
from engine.core.queue import Place, WaitingQueue
from engine.core.request import Request, Status
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
        self.preemptions = 0
        self._pool = BlockPool(config.num_blocks, config.block_size)
        self._waiting = WaitingQueue()
        self._running: list[tuple[Place, Request]] = []  # ascending: the last is the victim
        self._requests: dict[str, Request] = {}
        self._places: dict[str, Place] = {}
        self._arrivals = 0
        self._plans = 0
        self._planned: dict[str, Request] = {}
        self._outstanding: Plan | None = None

    # -- what an observer may ask ----------------------------------------------------------------

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def has_work(self) -> bool:
        return bool(self._requests)

    @property
    def kv_usage(self) -> float:
        """Share of KV blocks that are held, 0 to 1."""
        return self._pool.used / self._pool.num_blocks

    @property
    def running(self) -> list[Request]:
        """Running requests in policy order."""
        return [request for _, request in self._running]

    def get(self, request_id: str) -> Request | None:
        """The request of that id while it waits or runs."""
        return self._requests.get(request_id)

    # -- requests come and go --------------------------------------------------------------------

    def add(self, request: Request) -> None:
        """Queue a new request.

        Raises ``QueueFull`` when ``max_waiting`` wait already, and ``ValueError`` when the id is
        in use, a field is out of range, or the prompt and one answer token exceed all memory.
        """
        if request.id in self._requests:
            raise ValueError(f"request.id {request.id!r} is in use")
        if request.status is not Status.WAITING or request.output_tokens or request.computed_tokens:
            raise ValueError(f"request {request.id!r} is not new; build a Request per generation")
        if request.prompt_tokens < 1:
            raise ValueError(
                f"request.prompt_tokens must be at least 1, got {request.prompt_tokens}"
            )
        if not math.isfinite(request.arrival):
            raise ValueError(f"request.arrival must be finite seconds, got {request.arrival}")
        if request.prompt_tokens + 1 > self._pool.capacity:
            raise ValueError(
                f"request.prompt_tokens is {request.prompt_tokens}, but prompt and answer together "
                f"can hold {self._pool.capacity} tokens; shorten the prompt or add KV blocks"
            )
        if len(self._waiting) >= self.config.max_waiting:
            raise QueueFull(f"{len(self._waiting)} requests wait already")
        self.policy.arrived(request)
        place = (self.policy.key(request), self._arrivals)
        self._arrivals += 1
        self._requests[request.id] = request
        self._places[request.id] = place
        self._waiting.push(request, place)

    def abort(self, request_id: str, now: float) -> Request | None:
        """Drop a request and free its blocks at once; None when the id is unknown or finished."""
        request = self._requests.get(request_id)
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
        steps: list[Step] = []
        preempted: list[str] = []
        self._planned = {}
        stalled = self._plan_decodes(steps, preempted)
        budget = self.config.max_num_batched_tokens - len(steps)
        budget = self._plan_prefills(steps, budget)
        # Whoever lost memory in this step must not see it handed to a newcomer in the same step.
        if not preempted and not stalled:
            self._admit(steps, budget, now)
        exhausted: tuple[str, ...] = ()
        if not steps and self._running:
            # Each may evict those behind it, and still nobody moved: one is left, and it is full.
            request = self._running[0][1]
            exhausted = (request.id,)
            self._planned[request.id] = request
        self._plans += 1
        plan = Plan(self._plans, tuple(steps), tuple(preempted), exhausted)
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
            if request_id in self._requests and request_id not in self._planned:
                raise ValueError(f"finished names {request_id!r}, which plan {plan.number} lacks")
        planned, self._planned, self._outstanding = self._planned, {}, None
        ended: list[Request] = []
        for step in plan.steps:
            request = planned[step.request_id]
            if self._requests.get(request.id) is not request:
                continue
            reason = finished.get(request.id)
            if reason is not FinishReason.ERROR:
                request.computed_tokens = step.start + step.count
                request.output_tokens += step.samples
            if reason is not None:
                ended.append(self._end(request, reason, now))
        for request_id in plan.exhausted:
            request = planned[request_id]
            if self._requests.get(request_id) is request:
                reason = finished.get(request_id, FinishReason.LENGTH)
                ended.append(self._end(request, reason, now))
        return ended

    # -- skipping ahead (simulation) -------------------------------------------------------------

    def quiet_steps(self, limit: int) -> int:
        """How many steps, at most ``limit``, are sure to decode exactly the running requests.

        That holds while nobody prefills, nobody waiting can be admitted, and memory suffices,
        provided that no request arrives (unless all slots are taken), ends or is aborted.
        """
        if self._outstanding is not None or not self._running:
            return 0
        if any(r.pending_tokens != 1 or r.output_tokens == 0 for _, r in self._running):
            return 0
        if self._admissible() is not None:
            return 0
        while limit > 0 and self._growth(limit) > self._pool.free:
            limit //= 2
        return max(0, limit)

    def skip(self, steps: int) -> None:
        """Take ``steps`` quiet steps at once, as that many plans and commits would have.

        Raises ``ValueError`` when ``quiet_steps`` does not allow that many.
        """
        if steps < 1 or self.quiet_steps(steps) < steps:
            raise ValueError(f"cannot skip {steps} steps; ask quiet_steps first")
        for _, request in self._running:
            request.computed_tokens += steps
            request.output_tokens += steps
            missing = self._missing_blocks(request, request.computed_tokens)
            request.block_table.extend(self._pool.allocate(missing))

    def check_integrity(self) -> None:
        """Raise ``RuntimeError`` when requests, order, blocks or counts contradict each other."""
        self._waiting.check_integrity()
        running = [request for _, request in self._running]
        self._pool.check_integrity(request.block_table for request in running)
        known = sorted(request.id for request in [*running, *self._waiting])
        if known != sorted(self._requests) or known != sorted(self._places):
            raise RuntimeError("a request is lost or held twice")
        if self._running != sorted(self._running, key=lambda entry: entry[0]):
            raise RuntimeError("running requests are out of order")
        if len(running) > self.config.max_num_seqs:
            raise RuntimeError(f"{len(running)} requests run, {self.config.max_num_seqs} may")
        for request in running:
            held = len(request.block_table) * self._pool.block_size
            if request.status is not Status.RUNNING or not 0 <= request.computed_tokens <= held:
                raise RuntimeError(f"running request {request.id!r} computed more than it holds")
            if request.pending_tokens < 1:
                raise RuntimeError(f"running request {request.id!r} has nothing to compute")
        for request in self._waiting:
            if request.status is not Status.WAITING or request.block_table:
                raise RuntimeError(f"waiting request {request.id!r} holds blocks")

    # -- parts of schedule -----------------------------------------------------------------------

    def _plan_decodes(self, steps: list[Step], preempted: list[str]) -> bool:
        """One token for each request computed up to its newest; whether any had to stand still."""
        stalled = False
        for _, request in self._running.copy():
            if request.status is not Status.RUNNING or request.pending_tokens != 1:
                continue
            missing = self._missing_blocks(request, request.total_tokens)
            while missing > self._pool.free:
                victim = self._victim()
                if victim is request:
                    break
                self._preempt(victim)
                preempted.append(victim.id)
            if missing > self._pool.free:
                # It is the last in order. It stands still with its blocks, which costs nothing,
                # and loses them only when somebody before it needs them.
                stalled = True
                continue
            request.block_table.extend(self._pool.allocate(missing))
            steps.append(self._step(request, 1))
        return stalled

    def _plan_prefills(self, steps: list[Step], budget: int) -> int:
        """Chunks for admitted requests whose tokens are not all computed; the budget left."""
        for _, request in self._running:
            if budget < 1:
                break
            if request.id not in self._planned and request.pending_tokens > 1:
                count = min(request.pending_tokens, budget)
                steps.append(self._step(request, count))
                budget -= count
        return budget

    def _admit(self, steps: list[Step], budget: int, now: float) -> None:
        """Take waiting requests in order while slots, budget and memory last; nobody overtakes."""
        while budget > 0 and (request := self._admissible()) is not None:
            self._waiting.pop()
            blocks = self._pool.blocks_for(request.pending_tokens)
            request.block_table = self._pool.allocate(blocks)
            request.status = Status.RUNNING
            if request.first_scheduled is None:
                request.first_scheduled = now
            insort(self._running, (self._places[request.id], request), key=lambda entry: entry[0])
            count = min(request.pending_tokens, budget)
            steps.append(self._step(request, count))
            budget -= count

    def _admissible(self) -> Request | None:
        """The first waiting request if a slot is free and its tokens fit beside the running."""
        if len(self._running) >= self.config.max_num_seqs:
            return None
        request = self._waiting.peek()
        if request is None:
            return None
        reserved = self.config.reserved_blocks if self._running else 0
        fits = self._pool.blocks_for(request.pending_tokens) + reserved <= self._pool.free
        return request if fits else None

    def _step(self, request: Request, count: int) -> Step:
        self._planned[request.id] = request
        return Step(
            request_id=request.id,
            start=request.computed_tokens,
            count=count,
            block_table=tuple(request.block_table),
            samples=count == request.pending_tokens,
        )

    # -- memory ----------------------------------------------------------------------------------

    def _missing_blocks(self, request: Request, tokens: int) -> int:
        return max(0, self._pool.blocks_for(tokens) - len(request.block_table))

    def _growth(self, steps: int) -> int:
        """Blocks that ``steps`` more tokens for every running request take."""
        return sum(
            self._missing_blocks(request, request.computed_tokens + steps)
            for _, request in self._running
        )

    def _victim(self) -> Request:
        """The last running request in policy order that the step being planned does not run."""
        return next(
            request for _, request in reversed(self._running) if request.id not in self._planned
        )

    def _preempt(self, request: Request) -> None:
        """Drop what was computed; the request waits at its old place and will recompute."""
        self._leave_running(request)
        request.computed_tokens = 0
        request.status = Status.WAITING
        request.preemptions += 1
        self.preemptions += 1
        self._waiting.push(request, self._places[request.id])

    def _leave_running(self, request: Request) -> None:
        place = self._places[request.id]
        index = bisect_left(self._running, place, key=lambda entry: entry[0])
        del self._running[index]
        self._pool.release(request.block_table)
        request.block_table = []

    def _end(self, request: Request, reason: FinishReason, now: float) -> Request:
        if request.status is Status.RUNNING:
            self._leave_running(request)
        else:
            self._waiting.remove(request)
        del self._requests[request.id], self._places[request.id]
        request.status = Status.FINISHED
        request.finish_reason = reason
        self.policy.observe(request, now)
        return request
