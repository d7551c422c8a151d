"""The scheduler that serves, on a virtual clock: what a policy does to latencies, in a moment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.plan import Plan
from engine.core.policies.base import Policy
from engine.core.request import Request
from engine.core.scheduler import QueueFull, Scheduler
from engine.metrics import Summary, Timing, summarise
from ranker.types import FinishReason


@dataclass(frozen=True, slots=True)
class Result:
    """One simulated run. Seconds throughout; ``duration`` is first arrival to last finish.

    refused: ids that found the queue full. mean_waiting: over the duration. utilisation: share of
    the duration that the engine was stepping. slot_usage: share of slots taken while it was.
    """

    timings: tuple[Timing, ...]
    refused: tuple[str, ...]
    duration: float
    peak_waiting: int
    mean_waiting: float
    utilisation: float
    slot_usage: float
    steps: int
    preemptions: int

    @property
    def summary(self) -> Summary:
        return summarise(self.timings)


def simulate(
    requests: Sequence[Request],
    config: SchedulerConfig,
    policy: Policy,
    cost: CostModel,
    *,
    skip: bool = True,
) -> Result:
    """Run ``requests`` to their ``true_tokens`` and say when each began and ended.

    The requests are read, not changed. ``skip`` takes runs of equal decode steps at once; the
    outcome is the same without, up to rounding, and slower. A policy that learns is changed: give
    each run one of its own.

    Raises ``ValueError`` when there are no requests, a true length is missing or below 1, or a
    request can never fit; prompt and answer together must fit in the KV pool.
    """
    return _Run(requests, config, policy, cost, skip).result()


class _Run:
    def __init__(
        self,
        requests: Sequence[Request],
        config: SchedulerConfig,
        policy: Policy,
        cost: CostModel,
        skip: bool,
    ) -> None:
        if not requests:
            raise ValueError("requests must not be empty")
        self._lengths = {request.id: _length(request, config) for request in requests}
        self._future = sorted(requests, key=lambda request: request.arrival)[::-1]  # next is last
        self._scheduler = Scheduler(config, policy)
        self._slots = config.max_num_seqs
        self._cost = cost
        self._skip = skip
        self._now = self._start = self._future[-1].arrival
        self._first: dict[str, float] = {}
        self._timings: list[Timing] = []
        self._refused: list[str] = []
        self._peak = self._steps = 0
        self._waited = self._busy = self._slot_seconds = 0.0

    def result(self) -> Result:
        scheduler = self._scheduler
        while self._future or scheduler.has_work:
            self._arrive()
            if not scheduler.has_work:
                self._now = self._future[-1].arrival if self._future else self._now
                continue
            if self._skip and self._skip_ahead():
                continue  # whoever came meanwhile is to be seen by the step that follows
            plan = scheduler.schedule(self._now)
            self._peak = max(self._peak, scheduler.num_waiting)
            self._advance(1, self._seconds(plan))
            self._commit(plan)
        duration = self._now - self._start
        return Result(
            timings=tuple(self._timings),
            refused=tuple(self._refused),
            duration=duration,
            peak_waiting=self._peak,
            mean_waiting=self._waited / duration if duration else 0.0,
            utilisation=self._busy / duration if duration else 0.0,
            slot_usage=self._slot_seconds / (self._busy * self._slots) if self._busy else 0.0,
            steps=self._steps,
            preemptions=scheduler.stats.preemptions,
        )

    def _arrive(self) -> None:
        while self._future and self._future[-1].arrival <= self._now:
            template = self._future.pop()
            request = Request(
                template.id,
                template.arrival,
                template.prompt_tokens,
                template.forecast,
                template.true_tokens,
                template.tenant,
            )
            try:
                self._scheduler.add(request)
            except QueueFull:
                self._refused.append(request.id)
            else:
                self._waited += self._now - request.arrival  # it came while a step ran

    def _seconds(self, plan: Plan) -> float:
        context = sum(step.start + 1 for step in plan.steps if step.decodes)
        return self._cost.step(plan.decode_tokens, plan.prefill_tokens, context)

    def _advance(self, steps: int, seconds: float) -> None:
        self._now += seconds
        self._steps += steps
        self._busy += seconds
        self._waited += self._scheduler.num_waiting * seconds
        self._slot_seconds += self._scheduler.num_running * seconds

    def _commit(self, plan: Plan) -> None:
        done: dict[str, FinishReason] = {}
        for step in plan.steps:
            if not step.samples:
                continue
            request = self._scheduler.get(step.request_id)
            assert request is not None
            if request.output_tokens == 0:
                self._first[request.id] = self._now
            if request.output_tokens + 1 == self._lengths[request.id]:
                done[request.id] = FinishReason.STOP
        for request in self._scheduler.commit(plan, done, self._now):
            self._timings.append(
                Timing(
                    request.id,
                    request.arrival,
                    self._first.pop(request.id),
                    self._now,
                    request.prompt_tokens,
                    request.output_tokens,
                )
            )

    def _skip_ahead(self) -> bool:
        """Skip to the step in which somebody ends, or that the next arrival could join."""
        running = self._scheduler.running
        if not running:
            return False
        left = min(self._lengths[request.id] - request.output_tokens for request in running)
        batch = len(running)
        context = sum(request.computed_tokens + 1 for request in running)
        first = self._cost.step(batch, 0, context)
        growth = self._cost.context * batch  # each step attends to one token more per request
        steps = left - 1
        if self._future and batch < self._slots:
            # Steps that begin before the arrival, were all as long as the longest of them.
            room = self._future[-1].arrival - self._now
            steps = min(steps, math.floor(room / (first + growth * max(0, steps))))
        steps = self._scheduler.quiet_steps(steps, self._now)
        if steps < 1:
            return False
        self._scheduler.skip(steps, self._now)
        self._advance(steps, steps * first + growth * steps * (steps - 1) / 2)
        return True


def _length(request: Request, config: SchedulerConfig) -> int:
    if request.true_tokens is None or request.true_tokens < 1:
        raise ValueError(
            f"request {request.id!r} needs true_tokens of at least 1, got {request.true_tokens}"
        )
    if request.prompt_tokens + request.true_tokens > config.capacity:
        raise ValueError(
            f"request {request.id!r} holds {request.prompt_tokens} + {request.true_tokens} tokens, "
            f"but the KV pool {config.capacity}; raise num_blocks"
        )
    return request.true_tokens
