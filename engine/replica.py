"""One engine on a virtual clock: the scheduler that serves, with a cost model for a model."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Sequence

from engine.acceptance import Acceptance
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane
from engine.core.plan import Plan, Step
from engine.core.policies.base import Policy
from engine.core.request import Request
from engine.core.scheduler import QueueFull, Scheduler
from engine.core.speculation import SpeculationConfig
from engine.flow import Flow, Track
from engine.result import Account, Result
from engine.tenancy import Tenancy
from engine.timing_table import TimingTable
from ranker.types import FinishReason


class Replica:
    """Requests are submitted in order of arrival and seen by the first step that begins after.

    ``skip``: runs of equal decode steps are taken at once; the outcome is the same without, up to
    rounding, and slower. ``acceptance`` decides how many draft tokens a step keeps when the
    scheduler speculates; without it none are kept. ``tenancy`` watches fairness.

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
    ) -> None:
        self.config = config
        self.cost = cost
        self.now = -math.inf
        self.scheduler = Scheduler(
            config, policy_or_lanes, fairness=fairness, speculation=speculation
        )
        self._skip = skip
        self._acceptance = acceptance or Acceptance(0.0)
        self._draft_seconds = speculation.draft_seconds if speculation else 0.0
        self._tenancy = tenancy
        #: Whether an arrival may change what happens next although all slots are taken.
        self._barging = _barging(policy_or_lanes)
        self._account = Account(config.max_num_seqs)
        self._flow = Flow(self._account.gaps)
        self._tracks: dict[str, Track] = {}
        self._inbox: deque[Request] = deque()
        self._table = TimingTable()
        self._refused: list[str] = []
        self._start = math.nan
        self._due = math.inf  # the event that followed the newest schedule()

    @property
    def outstanding(self) -> int:
        """Requests submitted that have not ended."""
        return len(self._tracks) + len(self._inbox)

    def submit(self, request: Request) -> None:
        """A request, which is read and not changed, comes at its ``arrival``.

        Raises ``ValueError`` when that lies before the one submitted last, when ``true_tokens`` is
        missing or below 1, or when prompt and answer together exceed the KV pool.
        """
        if self._inbox and request.arrival < self._inbox[-1].arrival:
            raise ValueError(
                f"request {request.id!r} must not arrive before the one submitted last"
            )
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
            self._table.timings(),
            tuple(self._refused),
            0.0 if math.isnan(self._start) else self.now - self._start,
            self.scheduler.stats,
            self._tenancy.index if self._tenancy else math.nan,
        )

    # -- one step, or many ------------------------------------------------------------------------

    def _receive(self, template: Request) -> None:
        request = Request(
            template.id,
            template.arrival,
            template.prompt_tokens,
            template.forecast,
            template.true_tokens,
            template.tenant,
            template.lane,
            template.priority,
            template.block_hashes,
        )
        try:
            self.scheduler.add(request)
        except QueueFull:
            self._refused.append(request.id)
            return
        assert request.true_tokens is not None  # check_length
        self._tracks[request.id] = Track(request, request.true_tokens)
        self._account.waited += self.now - request.arrival  # it came while steps ran
        if self._tenancy:
            self._tenancy.waits(request.tenant)

    def _step(self) -> bool:
        """One step as the engine takes it; False when nothing can run."""
        scheduler, flow = self.scheduler, self._flow
        plan = scheduler.schedule(self.now)
        self._due = scheduler.next_event(self.now) or math.inf
        if not plan:
            return False
        decodes = prefill = context = kept = most = 0
        others: list[Step] = []
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
            self._interrupt({step.request_id for step in plan.steps})
        self._moved(plan, others)
        moved = plan.swapped_blocks * self.config.block_size
        seconds = self.cost.step(decodes, prefill, context, moved) + most * self._draft_seconds
        kv = scheduler.kv_usage
        self._pass(1, seconds, kv, kv)
        accepted = self._accept(drafted) if drafted else {}
        if kept:
            flow.advance(self.now, seconds)
        done = dict.fromkeys(self._ended(), FinishReason.STOP)
        joining: list[Track] = []
        for step in others:
            if step.samples:
                track = self._tracks[step.request_id]
                tokens = 1 + accepted.get(step.request_id, 0)
                self._sample(track, tokens)
                if track.request.output_tokens + tokens == track.length:
                    done[step.request_id] = FinishReason.STOP
                else:
                    joining.append(track)
        ended = scheduler.commit(plan, done, self.now, accepted)
        for track in joining:
            flow.join(track)
            if self._tenancy:
                self._tenancy.joined(track.request.tenant, flow.beat)
        for request in ended:
            self._end(request)
        if self._tenancy:
            self._tenancy.tick(self.now, flow.beat)
        return True

    def _skip_ahead(self, until: float) -> bool:
        """Skip to the step in which somebody ends, or that something could change."""
        flow, scheduler = self._flow, self.scheduler
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
        self._interrupt(())
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

    # -- accounts ---------------------------------------------------------------------------------

    def _pass(self, steps: int, seconds: float, kv_before: float, kv: float) -> None:
        scheduler = self.scheduler
        self.now += seconds
        self._account.stepped(
            steps, seconds, scheduler.num_waiting, scheduler.num_running, kv_before, kv
        )

    def _moved(self, plan: Plan, others: Sequence[Step]) -> None:
        """Note who began or ceased to run."""
        for request_id in plan.preempted:
            self._tracks[request_id].waiting = True
            if self._tenancy:
                self._tenancy.waits(self._tracks[request_id].request.tenant)
        for step in others:
            track = self._tracks[step.request_id]
            if track.waiting:
                track.waiting = False
                if self._tenancy:
                    self._tenancy.runs(track.request.tenant)

    def _interrupt(self, sampled: Collection[str]) -> None:
        for track in self._flow.leave_all_but(sampled):
            if self._tenancy:
                self._tenancy.left(track.request.tenant, self._flow.beat)

    def _ended(self) -> list[str]:
        """Members of the flow that just got their last token."""
        ended = self._flow.ended()
        if self._tenancy:
            for track in ended:
                self._tenancy.left(track.request.tenant, self._flow.beat)
        return [track.request.id for track in ended]

    def _sample(self, track: Track, tokens: int) -> None:
        """It got tokens in a step, but not with the flow: its first, or after a stall."""
        request = track.request
        if request.output_tokens == 0:
            track.first = self.now
            if self._tenancy:
                self._tenancy.first_token(request.tenant, request.prompt_tokens)
        else:
            gap = self.now - track.last
            track.gaps += 1
            track.longest = max(track.longest, gap)
            track.squares += gap * gap
            self._account.gaps.add(gap)
            if self._tenancy:
                self._tenancy.token(request.tenant, tokens)
        track.last = self.now

    def _accept(self, drafted: Sequence[Step]) -> dict[str, int]:
        """Draft tokens kept by each; no answer goes beyond its length."""
        found: dict[str, int] = {}
        for step in drafted:
            track = self._tracks[step.request_id]
            room = track.length - track.request.output_tokens - 1
            found[step.request_id] = count = min(room, self._acceptance.draw(step.drafts))
            if count and step.request_id in self._flow:
                self._flow.hasten(track, count)
                if self._tenancy:
                    self._tenancy.token(track.request.tenant, count)
        return found

    def _end(self, request: Request) -> None:
        track = self._tracks.pop(request.id)
        if math.isnan(track.first):
            self._refused.append(request.id)  # it filled all memory before its first token
            return
        self._table.add(
            request.id, request.arrival, track.first, self.now, request.prompt_tokens,
            request.output_tokens, track.gaps, track.longest, track.squares, request.preemptions,
            request.tenant, request.lane,
        )  # fmt: skip


def check_length(request: Request, config: SchedulerConfig) -> None:
    """Raise ``ValueError`` unless its ``true_tokens`` are known and fit ``config``."""
    if request.true_tokens is None or request.true_tokens < 1:
        raise ValueError(
            f"request {request.id!r} needs true_tokens of at least 1, got {request.true_tokens}"
        )
    if request.prompt_tokens + request.true_tokens > config.capacity:
        raise ValueError(
            f"request {request.id!r} holds {request.prompt_tokens} + {request.true_tokens} tokens, "
            f"but the KV pool {config.capacity}; raise num_blocks"
        )


def steps_within(room: float, first: float, growth: float) -> int:
    """Steps that begin before ``room`` seconds passed; they take ``first``, ``first + growth``, …

    The n-th begins after ``n·first + growth·n(n − 1)/2``: a quadratic in n, solved without
    cancellation. ``growth`` is at most ``first``: a step attends to what it adds, too.
    """
    if room <= 0.0:
        return 0
    slope = first - growth / 2.0
    return math.ceil(2.0 * room / (slope + math.sqrt(slope * slope + 2.0 * growth * room)))


def _barging(policy_or_lanes: Policy | Sequence[Lane]) -> bool:
    if not isinstance(policy_or_lanes, Sequence):
        return policy_or_lanes.preempts
    return any(lane.policy.preempts or lane.config.reclaim for lane in policy_or_lanes)
