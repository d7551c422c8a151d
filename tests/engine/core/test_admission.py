"""Predicted admission against memory counted token by token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.admission import Admission
from engine.core.config import AdmissionConfig, SchedulerConfig
from engine.core.memory import Memory
from engine.core.policies import Fcfs
from engine.core.request import Request
from engine.core.scheduler import Scheduler
from tests.engine.core.policy_parts import point, running

BLOCK = 4


def admission(blocks, **admission):
    config = SchedulerConfig(
        99, 99, BLOCK, blocks, admission=AdmissionConfig("predicted", **admission)
    )
    memory = Memory(config)
    return Admission(config, memory), memory


def peak(requests):
    """Each grows by a token a step until it ends as forecast; a last block is half full."""
    most = 0.0
    for step in range(max(left for _, left in requests) + 1):
        alive = [held for held, left in requests if left >= step]
        most = max(most, sum(held + BLOCK / 2 + step for held in alive))
    return most


lives = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30), st.integers(1, 40)), min_size=2)


@given(lives, st.integers(1, 120))
def test_admits_while_the_peak_to_come_fits(lives, blocks):
    """One after another, as a step admits them, and as if each were the first to be asked about."""
    requests = [
        running(str(i), done, prompt=prompt, forecast=point(done + left))
        for i, (prompt, done, left) in enumerate(lives)
    ]
    shapes = [(prompt + done, left) for prompt, done, left in lives]
    ours, memory = admission(blocks)
    inside, held = [], []
    for request, shape in zip(requests, shapes, strict=True):
        if memory.missing(request, request.total_tokens) > memory.free:
            continue
        fits = not inside or peak([*held, shape]) <= blocks * BLOCK
        assert ours.admits(request, inside, lambda need: True) is fits
        assert Admission(ours._config, memory).admits(request, inside, lambda need: True) is fits
        if fits:
            memory.admit(request)
            inside, held = [*inside, request], [*held, shape]


def test_one_that_outlives_its_forecast_is_reckoned_with_again():
    ours, _ = admission(20)
    old = running("a", 10, prompt=10, forecast=point(11))
    new = Request("b", 0.0, 10, point(30))
    assert ours.admits(new, [old], lambda need: True)
    old.output_tokens = 60
    ours.changed()
    # 70 tokens are held and at least one is to come, beside 10 and half a block for each.
    assert not ours.admits(new, [old], lambda need: True)


@pytest.mark.parametrize(("blocks", "fits"), [(46, False), (47, True)])
def test_without_forecasts_past_answers_that_went_on_as_long_speak(blocks, fits):
    ours, _ = admission(blocks, level=0.5)
    for tokens in (10, 20, 30, 100, 110, 120):
        ours.ended(running("x", tokens))
    young, old = running("a", 0, prompt=50), running("b", 90, prompt=1)
    # Half of all answers have up to 100 tokens; half of those above 90 up to 110, 20 more.
    new = Request("c", 0.0, 1, point(1))
    # At its end 50 + 91 tokens and twice 20 are held, and half a block for each.
    assert ours.admits(new, [young, old], lambda need: True) is fits


def test_alone_everybody_may_run_who_fits():
    ours, _ = admission(5)
    assert ours.admits(Request("a", 0.0, 10, point(1000)), [], lambda need: need <= 5)


@pytest.mark.parametrize(("mode", "beside"), [("off", True), ("static", False)])
def test_a_watermark_keeps_blocks_free(mode, beside):
    config = SchedulerConfig(9, 99, BLOCK, 10, admission=AdmissionConfig(mode, watermark=0.3))
    scheduler = Scheduler(config, Fcfs())
    for name in "ab":
        scheduler.add(Request(name, 0.0, 16))
    plan = scheduler.schedule(0.0)
    assert {step.request_id for step in plan.steps} == ({"a", "b"} if beside else {"a"})
