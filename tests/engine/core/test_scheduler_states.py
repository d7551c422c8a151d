"""Random lives of a scheduler: requests come, step, share, give way, are cut off, run dry."""

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from engine.core.budgets import Budget
from engine.core.config import AdmissionConfig, PreemptionConfig
from engine.core.costs import CostModel
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane, LaneConfig
from engine.core.policies import make
from engine.core.policies.base import Starvation, Static
from engine.core.request import Request, Status
from engine.core.scheduler import QueueFull, Scheduler, SchedulerConfig
from engine.core.speculation import SpeculationConfig
from ranker.types import FinishReason, Forecast
from tests.engine.core.tape import Tape

COST = CostModel(base=0.03, decode=0.002, prefill=0.0007, swap=0.0002)


class Fickle(Static):
    """Preempts, and changes its mind every three tokens and after five steps of waiting."""

    name = "fickle"
    preempts = True
    starvation = Starvation(steps=5)

    def __init__(self):
        self.risen = set()

    def key(self, request):
        return (
            -float(request.id in self.risen),
            float((hash(request.id) ^ request.output_tokens) % 7),
        )

    def rekey_after(self, request):
        return 3

    def starved(self, request):
        self.risen.add(request.id)

    def observe(self, request, now):
        self.risen.discard(request.id)


def forecast_of(score):
    if score is None:
        return None
    return Forecast(score, tuple(3.0 * score * (i + 1) for i in range(12)), "r", "1")


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.count = 0
        self.left: dict[str, int] = {}
        self.ended: dict[str, Request] = {}
        self.aborted: set[str] = set()
        self.plan = None

    @initialize(
        slots=st.integers(1, 4),
        extra=st.integers(0, 12),
        block_size=st.integers(1, 5),
        blocks=st.integers(4, 14),
        host=st.sampled_from([0, 6, 30]),
        admission=st.sampled_from(["off", "static", "predicted"]),
        preemption=st.sampled_from(["auto", "recompute", "swap"]),
        lanes=st.lists(
            st.tuples(
                st.sampled_from(["fcfs", "sjf", "ranked", "boost", "fickle"]),
                st.integers(0, 1),
                st.sampled_from([0.5, 1.0, 3.0]),
                st.booleans(),
                st.sampled_from([None, 1.0, 8.0]),
            ),
            min_size=1,
            max_size=3,
        ),
        fairness=st.sampled_from(
            [None, FairnessConfig(), FairnessConfig(default_budget=Budget(8.0, 20.0))]
        ),
        speculates=st.booleans(),
    )
    def build(
        self,
        slots,
        extra,
        block_size,
        blocks,
        host,
        admission,
        preemption,
        lanes,
        fairness,
        speculates,
    ):
        if preemption == "swap" and not host:
            preemption = "auto"
        self.config = SchedulerConfig(
            slots,
            slots + extra,
            block_size,
            blocks,
            max_waiting=8,
            host_blocks=host,
            admission=AdmissionConfig(admission),
            preemption=PreemptionConfig(preemption),
            cost=COST,
        )
        self.lanes = [
            Lane(
                LaneConfig(
                    str(i), share=share, precedence=precedence, reclaim=reclaim, max_wait=max_wait
                ),
                Fickle() if policy == "fickle" else make(policy, cost=COST, batch=slots),
            )
            for i, (policy, precedence, share, reclaim, max_wait) in enumerate(lanes)
        ]
        self.scheduler = Scheduler(
            self.config,
            self.lanes,
            fairness=fairness,
            speculation=SpeculationConfig(3) if speculates else None,
        )
        self.tape = Tape(block_size)

    @rule(
        family=st.integers(0, 3),
        prompt=st.integers(1, 30),
        length=st.integers(1, 30),
        score=st.one_of(st.none(), st.floats(0.0, 5.0)),
        lane=st.integers(0, 2),
        tenant=st.sampled_from("ab"),
        wait=st.floats(0.0, 3.0),
        hashed=st.booleans(),
    )
    def submit(self, family, prompt, length, score, lane, tenant, wait, hashed):
        self.now += wait
        name = str(self.count)
        # Requests of one family share their prompts as far as both go: family 0 shares nothing.
        words = [(family or name, i) for i in range(prompt)]
        hashes = self.tape.add(name, words, length + 8)
        request = Request(
            name,
            self.now,
            prompt,
            forecast_of(score),
            true_tokens=length,
            tenant=tenant,
            lane=str(lane % len(self.lanes)),
            block_hashes=hashes if hashed else (),
        )
        try:
            self.scheduler.add(request)
        except QueueFull:
            assert self.scheduler.num_waiting >= 8
            return
        except ValueError:
            assert prompt + 1 > self.config.capacity
            return
        self.count += 1
        self.left[name] = length

    @precondition(lambda self: self.plan is None)
    @rule()
    def schedule(self):
        plan = self._plan()
        assert bool(plan) == self.scheduler.has_work, "work is left but nothing runs"
        names = [step.request_id for step in plan.steps]
        assert len(set(names)) == len(names)
        assert not set(names) & set(plan.preempted), "scheduled and preempted at once"
        assert plan.tokens <= self.config.max_num_batched_tokens
        assert len(names) <= self.config.max_num_seqs
        for step in plan.steps:
            request = self.scheduler.get(step.request_id)
            assert request.status is Status.RUNNING
            assert len(step.block_table) * self.config.block_size >= step.start + step.tokens
            assert step.start == request.computed_tokens
            assert step.samples == (step.start + step.tokens - step.drafts == request.total_tokens)
        self.tape.run(plan)
        if plan:
            self.plan = plan

    def _plan(self):
        """A plan, as soon as the budgets of those who wait allow one."""
        plan = self.scheduler.schedule(self.now)
        while not plan and (event := self.scheduler.next_event(self.now)) is not None:
            assert event > self.now
            self.now = event
            plan = self.scheduler.schedule(self.now)
        return plan

    @precondition(lambda self: self.plan is not None)
    @rule(seconds=st.floats(0.0, 2.0), fails=st.integers(0, 15), taken=st.integers(0, 3))
    def commit(self, seconds, fails, taken):
        self.now += seconds
        plan, self.plan = self.plan, None
        alive = {step.request_id for step in plan.steps if self.scheduler.get(step.request_id)}
        before = {name: self.scheduler.get(name).output_tokens for name in alive}
        done = dict.fromkeys(alive, FinishReason.ERROR) if fails == 0 else {}
        accepted = {}
        for step in plan.steps if fails else ():
            if step.samples and step.request_id in alive:
                left = self.left[step.request_id] - before[step.request_id]
                drafts = min(step.drafts, taken, left - 1)
                if step.drafts:
                    accepted[step.request_id] = drafts
                if 1 + drafts >= left:
                    done[step.request_id] = FinishReason.STOP
        for request in self.scheduler.commit(plan, done, self.now, accepted):
            assert request.id not in self.ended
            assert request.id not in self.aborted
            assert request.status is Status.FINISHED
            assert request.finish_reason is not None
            if request.finish_reason is FinishReason.STOP:
                assert request.output_tokens == self.left[request.id]
            self.ended[request.id] = request
        for step in plan.steps:
            request = self.scheduler.get(step.request_id)
            if request is not None and fails:
                gained = step.samples + accepted.get(request.id, 0)
                assert request.output_tokens == before[step.request_id] + gained

    def alive(self):
        return [name for name in self.left if name not in self.ended and name not in self.aborted]

    @rule(data=st.data())
    def abort(self, data):
        if alive := self.alive():
            name = data.draw(st.sampled_from(alive))
            assert self.scheduler.abort(name, self.now).finish_reason is FinishReason.ABORT
            self.aborted.add(name)

    @rule(data=st.data(), score=st.floats(0.0, 5.0))
    def forecast_comes_late(self, data, score):
        if alive := self.alive():
            assert self.scheduler.reforecast(data.draw(st.sampled_from(alive)), forecast_of(score))

    @rule(data=st.data(), lane=st.integers(0, 2))
    def change_lane(self, data, lane):
        if alive := self.alive():
            name = data.draw(st.sampled_from(alive))
            assert self.scheduler.move(name, str(lane % len(self.lanes)), self.now)

    @precondition(lambda self: self.plan is None)
    @rule(limit=st.integers(1, 40))
    def skip(self, limit):
        running = self.scheduler.running
        if not running:
            return
        left = min(self.left[request.id] - request.output_tokens for request in running)
        steps = self.scheduler.quiet_steps(min(limit, left - 1), self.now)
        if steps:
            before = {r.id: r.computed_tokens for r in running}
            self.scheduler.skip(steps, self.now)
            self._write(running, before, steps)

    def _write(self, running, before, steps):
        """What the skipped steps would have written."""
        for request in running:
            for position in range(before[request.id], before[request.id] + steps):
                block, slot = divmod(position, self.config.block_size)
                content = self.tape.tokens[request.id][position]
                self.tape.device.setdefault(request.block_table[block], {})[slot] = content

    @invariant()
    def sound(self):
        if not hasattr(self, "scheduler"):
            return
        self.scheduler.check_integrity()
        held = self.scheduler.num_running + self.scheduler.num_waiting
        assert held + len(self.ended) + len(self.aborted) == self.count, "lost or duplicated"

    def teardown(self):
        """Whatever happened, what is left can be served to the end: nobody starves."""
        if not hasattr(self, "scheduler"):
            return
        if self.plan is not None:
            self.scheduler.commit(self.plan, {}, self.now)
        for _ in range(20_000):
            plan = self._plan()
            if not plan:
                break
            self.tape.run(plan)
            done = {
                step.request_id: FinishReason.STOP
                for step in plan.steps
                if step.samples
                and self.scheduler.get(step.request_id).output_tokens + 1
                >= self.left[step.request_id]
            }
            self.scheduler.commit(plan, done, self.now)
            self.scheduler.check_integrity()
        else:
            pytest.fail("livelock")
        assert not self.scheduler.has_work
        assert self.scheduler.kv_usage == 0.0
        assert math.isfinite(self.now)


Life.TestCase.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
TestLife = Life.TestCase
