from dataclasses import replace

import pytest

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.profile import profile

CONFIG = SchedulerConfig(8, 64, 16, 256)


class Machine:
    """An executor on a clock of its own that only a running plan advances."""

    def __init__(self, cost, warm_up=0.0):
        self.cost = cost
        self.now = 0.0
        self.held = {}
        self.plans = 0
        self.warm_up = warm_up

    def add(self, request_id, prompt_ids, sampling):
        assert sampling.ignore_eos
        self.held[request_id] = len(prompt_ids)

    def remove(self, request_id):
        self.held.pop(request_id, None)

    def run(self, plan):
        assert {step.request_id for step in plan.steps} <= set(self.held)
        self.plans += 1
        swapped = plan.swapped_blocks * CONFIG.block_size
        self.now += self.cost.step(plan.decode_tokens, plan.prefill_tokens, 0, swapped)
        self.now += self.warm_up if self.plans == 1 else 0.0
        return {}


def test_finds_the_cost_of_the_machine_and_leaves_it_clean():
    cost = CostModel(base=0.031, decode=0.0021, prefill=0.0009)
    machine = Machine(cost, warm_up=60.0)
    found = profile(machine, CONFIG, lambda: machine.now)
    assert found.cost.base == pytest.approx(cost.base)
    assert found.cost.decode == pytest.approx(cost.decode)
    assert found.cost.prefill == pytest.approx(cost.prefill)
    assert found.r_squared == pytest.approx(1.0)
    assert machine.held == {}


def test_finds_the_cost_of_a_swap_where_there_is_room_for_one():
    cost = CostModel(base=0.031, decode=0.0021, prefill=0.0009, swap=3e-6)
    machine = Machine(cost)
    found = profile(machine, replace(CONFIG, host_blocks=7), lambda: machine.now)
    assert found.cost.swap == pytest.approx(cost.swap)
    assert found.cost.base == pytest.approx(cost.base)
    assert profile(machine, CONFIG, lambda: machine.now).cost.swap == 0.0


def test_a_failing_executor_is_left_clean_too():
    machine = Machine(CostModel(0.01, 0.0, 0.0))
    machine.run = lambda plan: (_ for _ in ()).throw(RuntimeError("out of memory"))
    with pytest.raises(RuntimeError, match="out of memory"):
        profile(machine, CONFIG, lambda: machine.now)
    assert machine.held == {}


def test_prompts_must_fit():
    with pytest.raises(ValueError, match="prompts"):
        profile(Machine(CostModel(0.01, 0.0, 0.0)), SchedulerConfig(1, 8, 4, 4), lambda: 0.0)
