"""One engine on a virtual clock: the scheduler that serves, with a cost model for a model."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from engine.acceptance import Acceptance
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane
from engine.core.plan import Step
from engine.core.policies.base import Policy
from engine.core.request import Request
from engine.core.scheduler import QueueFull, Scheduler
from engine.core.speculation import SpeculationConfig
from engine.flow import steps_within
from engine.gaps import Gaps
from engine.outlook import Outlook
from engine.readers import Readers
from engine.result import Account, Result
from engine.templates import check_length, fresh
from engine.tenancy import Tenancy
from ranker.types import FinishReason


class Replica:
    """Requests are submitted in order of arrival and seen by the first step that begins after.

    ``skip``: runs of equal decode steps are taken at once; the outcome is the same without, up to
    rounding, and slower. ``acceptance`` decides how many draft tokens a step keeps when the
    scheduler speculates; without it none are kept. ``tenancy`` watches fairness. ``outlook``
    predicts work, for routers that ask.

    A policy that learns is changed: give each replica one of its own.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        policy_or_lanes: Policy | Sequence[Lane],
        cost: CostModel,
        *,
        skip: bool = True,
        fairness: FairnessConfig | None = None,
        speculation: SpeculationConfig | None = None,
        acceptance: Acceptance | None = None,
        tenancy: Tenancy | None = None,
        outlook: Outlook | None = None,
    ) -> None:
        self.config = config
        self.cost = cost
        self.now = -math.inf
        self.scheduler = Scheduler(
            config, policy_or_lanes, fairness=fairness, speculation=speculation
        )
        self._outlook = outlook
        self._skip = skip
        self._draft_seconds = speculation.draft_seconds if speculation else 0.0
        #: Whether an arrival may change what happens next although all slots are taken.
        self._barging = _barging(policy_or_lanes)
        self._account = Account(config.max_num_seqs)
        lanes = isinstance(policy_or_lanes, Sequence)
        self._readers = Readers(
            self._account.gaps, tenancy or Tenancy(), acceptance or Acceptance(0.0), outlook,
            lane=self.scheduler.lanes[0].name if lanes else "",
        )  # fmt: skip
        self._inbox: deque[Request] = deque()
        self._refused: list[str] = []
        self._start = math.nan
        self._due = math.inf  # the event that followed the newest schedule()

    @property
    def outstanding(self) -> int:
        """Requests submitted that have not ended."""
        return len(self._readers) + len(self._inbox)

    @property
    def predicted_work(self) -> float:
        """Seconds of work that requests which came are predicted to need still.

        Raises ``RuntimeError`` without an outlook.
        """
        if self._outlook is None:
            raise RuntimeError("predicted_work needs a replica with an outlook")
        running = sum(map(self._outlook.work, self.scheduler.running))
        return running + self._readers.waiting_work + sum(map(self._outlook.work, self._inbox))

    @property
    def gaps(self) -> Gaps:
        """Times between tokens so far."""
        return self._account.gaps

    def submit(self, request: Request) -> None:
        """A request, which is read and not changed, comes at its ``arrival``.

        Raises ``ValueError`` when that lies before the one submitted last, when ``true_tokens`` is
        missing or below 1, or when prompt and answer together exceed the KV pool.
        """
        if self._inbox and request.arrival < self._inbox[-1].arrival:
            raise ValueError(f"request {request.id!r} arrives before the one submitted last")
        check_length(request, self.config)
        # A waiting request's prefix is evicted last, so its coming changes what is in the cache.
        self._barging = self._barging or (self.config.prefix_cache and bool(request.block_hashes))
        if math.isnan(self._start):
            self._start = request.arrival
        self._inbox.append(request)

    def advance(self, until: float = math.inf) -> None:
        """Take all steps that begin before ``until``; the clock stops where the last one ends.

        Raises ``RuntimeError`` when requests wait, nothing runs, and nothing would ever change.
        """
        scheduler, inbox = self.scheduler, self._inbox
        while True:
            while inbox and inbox[0].arrival <= self.now:
                self._receive(inbox.popleft())
            if scheduler.has_work:
                if self.now >= until:
                    return
                moved = (self._skip and self._skip_ahead(until)) or self._step()
                if not moved and not self._wait(until):
                    return
            elif inbox and inbox[0].arrival < until:
                self.now = inbox[0].arrival
            else:
                return

    def result(self) -> Result:
        """What happened so far. ``duration`` counts from the first arrival to the clock."""
        return self._account.result(
            self._readers.timings(),
            tuple(self._refused),
            0.0 if math.isnan(self._start) else self.now - self._start,
            self.scheduler.stats,
            self._readers.tenancy.index,
        )

    # -- one step, or many ------------------------------------------------------------------------

    def _receive(self, template: Request) -> None:
        request = fresh(template)
        try:
            self.scheduler.add(request)
        except QueueFull:
            self._refused.append(request.id)
            return
        self._readers.received(request)
        self._account.waited += self.now - request.arrival  # it came while steps ran

    def _step(self) -> bool:
        """One step as the engine takes it; False when nothing can run."""
        scheduler, readers = self.scheduler, self._readers
        flow = readers.flow
        plan = scheduler.schedule(self.now)
        due = scheduler.next_event(self.now)
        self._due = math.inf if due is None else due
        if not plan:
            return False
        decodes = prefill = context = kept = most = 0
        others: list[Step] = []  # all but the flow's
        drafted: list[Step] = []
        for step in plan.steps:
            request_id, start, tokens, _, samples, drafts = step
            if samples and start > 0 and tokens == 1 + drafts:
                decodes += 1
                context += start + 1
                if drafts:
                    drafted.append(step)
                    prefill += drafts  # verified side by side, as a prompt is computed
                    most = max(most, drafts)
                if request_id in flow:
                    kept += 1
                    continue
            else:
                prefill += tokens
            others.append(step)
        if kept < len(flow):
            readers.passed_by({step.request_id for step in plan.steps})
        readers.moved(plan, others)
        swapped = plan.swapped_blocks * self.config.block_size
        seconds = self.cost.step(decodes, prefill, context, swapped) + most * self._draft_seconds
        kv = scheduler.kv_usage
        self._pass(1, seconds, kv, kv)
        accepted = readers.accept(drafted) if drafted else {}
        done = readers.step(self.now, seconds, others, accepted)
        for request in scheduler.commit(
            plan, dict.fromkeys(done, FinishReason.STOP), self.now, accepted
        ):
            if not readers.end(request, self.now):
                self._refused.append(request.id)  # it filled all memory before its first token
        readers.committed(self.now)
        return True

    def _skip_ahead(self, until: float) -> bool:
        """Skip to the step in which somebody ends, or that something could change."""
        flow, scheduler = self._readers.flow, self.scheduler
        batch = len(flow)
        if not batch or batch != scheduler.num_running or self.now >= self._due:
            return False  # somebody prefills, or an event came while a step ran
        steps = flow.left - 1
        first = self.cost.step(batch, 0, flow.context)
        growth = self.cost.context * batch  # each step attends to one token more per request
        if (room := self._barrier(until) - self.now) < math.inf:
            steps = min(steps, steps_within(room, first, growth))
        if steps < 1 or (steps := scheduler.quiet_steps(steps, self.now)) < 1:
            return False
        before = scheduler.kv_usage
        scheduler.skip(steps, self.now)
        seconds = steps * first + growth * steps * (steps - 1) / 2
        self._pass(steps, seconds, before, scheduler.kv_usage)
        flow.advance(self.now, first, growth, steps)
        return True

    def _barrier(self, until: float) -> float:
        """When something other than the running requests may change what runs."""
        if self._inbox and (self._barging or self.scheduler.num_running < self.config.max_num_seqs):
            until = min(until, self._inbox[0].arrival)
        self._due = self.scheduler.next_event(self.now) or math.inf
        return min(until, self._due)

    def _wait(self, until: float) -> bool:
        """Nothing can run: on to whatever comes first. False when that is ``until``."""
        self._readers.passed_by(())
        events = [until, self._due]
        events += [self._inbox[0].arrival] if self._inbox else []
        then = min(events)
        if then == math.inf:
            raise RuntimeError(
                f"{self.scheduler.num_waiting} requests wait, none can run and nothing will change"
            )
        self._account.stood_still(then - self.now, self.scheduler.num_waiting)
        self.now = then
        return then < until

    def _pass(self, steps: int, seconds: float, kv_before: float, kv: float) -> None:
        scheduler = self.scheduler
        self.now += seconds
        self._account.stepped(
            steps, seconds, scheduler.num_waiting, scheduler.num_running, kv_before, kv
        )


def _barging(policy_or_lanes: Policy | Sequence[Lane]) -> bool:
    if not isinstance(policy_or_lanes, Sequence):
        return policy_or_lanes.preempts
    return any(lane.policy.preempts or lane.config.reclaim for lane in policy_or_lanes)
