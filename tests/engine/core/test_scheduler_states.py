"""Random lives of a scheduler: requests come, step, are cut off, run out of memory."""

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

from engine.core.costs import CostModel
from engine.core.policies import make
from engine.core.request import Request, Status
from engine.core.scheduler import QueueFull, Scheduler, SchedulerConfig
from ranker.types import FinishReason, Forecast

COST = CostModel(base=0.03, decode=0.002, prefill=0.0007)


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
        policy=st.sampled_from(["fcfs", "sjf", "ranked", "boost"]),
    )
    def build(self, slots, extra, block_size, blocks, policy):
        self.config = SchedulerConfig(slots, slots + extra, block_size, blocks, max_waiting=8)
        self.scheduler = Scheduler(self.config, make(policy, cost=COST, batch=slots))

    @rule(
        prompt=st.integers(1, 30),
        length=st.integers(1, 30),
        score=st.one_of(st.none(), st.floats(0.0, 5.0)),
        wait=st.floats(0.0, 3.0),
    )
    def submit(self, prompt, length, score, wait):
        self.now += wait
        name = str(self.count)
        forecast = None
        if score is not None:
            quantiles = tuple(10.0 * score * (i + 1) for i in range(12))
            forecast = Forecast(score, quantiles, "r", "1")
        request = Request(name, self.now, prompt, forecast, true_tokens=length)
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
        plan = self.scheduler.schedule(self.now)
        held = self.scheduler.has_work
        assert bool(plan) == held, "work is left but nothing runs"
        names = [step.request_id for step in plan.steps]
        assert len(set(names)) == len(names)
        assert not set(names) & set(plan.preempted), "scheduled and preempted at once"
        assert plan.tokens <= self.config.max_num_batched_tokens
        assert len(names) <= self.config.max_num_seqs
        blocks = [block for step in plan.steps for block in step.block_table]
        assert len(set(blocks)) == len(blocks), "two requests write to one block"
        for step in plan.steps:
            request = self.scheduler.get(step.request_id)
            assert request.status is Status.RUNNING
            assert len(step.block_table) * self.config.block_size >= step.start + step.tokens
            assert step.start == request.computed_tokens
            assert step.samples == (step.start + step.tokens == request.total_tokens)
        if plan:
            self.plan = plan

    @precondition(lambda self: self.plan is not None)
    @rule(seconds=st.floats(0.0, 2.0), fails=st.integers(0, 15))
    def commit(self, seconds, fails):
        self.now += seconds
        plan, self.plan = self.plan, None
        alive = {step.request_id for step in plan.steps if self.scheduler.get(step.request_id)}
        before = {name: self.scheduler.get(name).output_tokens for name in alive}
        if fails == 0:
            done = dict.fromkeys(alive, FinishReason.ERROR)
        else:
            done = {
                step.request_id: FinishReason.STOP
                for step in plan.steps
                if step.samples
                and step.request_id in alive
                and before[step.request_id] + 1 >= self.left[step.request_id]
            }
        ended = self.scheduler.commit(plan, done, self.now)
        for step in plan.steps:
            request = self.scheduler.get(step.request_id)
            if request is not None:
                assert request.output_tokens == before[step.request_id] + step.samples
        for request in ended:
            assert request.id not in self.ended
            assert request.id not in self.aborted
            assert request.status is Status.FINISHED
            assert request.finish_reason is not None
            if request.finish_reason is FinishReason.STOP:
                assert request.output_tokens == self.left[request.id]
            self.ended[request.id] = request

    @rule(data=st.data())
    def abort(self, data):
        alive = [name for name in self.left if name not in self.ended and name not in self.aborted]
        if alive:
            name = data.draw(st.sampled_from(alive))
            assert self.scheduler.abort(name, self.now).finish_reason is FinishReason.ABORT
            self.aborted.add(name)

    @precondition(lambda self: self.plan is None)
    @rule(limit=st.integers(1, 40))
    def skip(self, limit):
        running = self.scheduler.running
        if not running:
            return
        left = min(self.left[request.id] - request.output_tokens for request in running)
        steps = self.scheduler.quiet_steps(min(limit, left - 1))
        if steps:
            self.scheduler.skip(steps)

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
            plan = self.scheduler.schedule(self.now)
            if not plan:
                break
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


Life.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestLife = Life.TestCase
