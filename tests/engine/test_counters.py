"""What a step of the loop costs, as a simulated one should."""

import pytest

from engine.core.plan import Move, Plan, Step
from engine.costs import MeasuredStep
from engine.counters import Counters

STEPS = (Step("a", 7, 1, (0,), True), Step("b", 0, 5, (1,), False))


def seconds(counters):
    return [step.seconds for step in counters.measured]


def test_a_step_is_whatever_passed_since_the_last_one_unless_the_thread_waited():
    counters = Counters()
    counters.cycled(Plan(1, STEPS), 0, begun=10.0, ended=11.0)
    counters.cycled(Plan(2, STEPS), 0, begun=11.5, ended=12.0)  # half a second of deliveries, say
    counters.idle()
    counters.cycled(Plan(3, STEPS), 0, begun=20.0, ended=22.0)
    assert list(counters.measured) == [
        MeasuredStep(1, 5, 8, 1.0), MeasuredStep(1, 5, 8, 1.0), MeasuredStep(1, 5, 8, 2.0),
    ]  # fmt: skip


def test_steps_that_are_no_measure_of_the_model_are_left_out():
    counters = Counters()
    counters.cycled(Plan(1, STEPS, swap_out=(Move(0, 0),)), 0, 10.0, 15.0)
    counters.cycled(Plan(2, (), exhausted=("c",)), 0, 15.0, 15.1)
    counters.cycled(Plan(3, STEPS), 0, 15.25, 16.0)
    assert seconds(counters) == [pytest.approx(0.9)]


def test_drafts_count_as_prefilled_tokens_and_only_those_that_ran():
    counters = Counters()
    step = Step("a", 7, 4, (0,), True, drafts=3)
    counters.cycled(Plan(1, (step,)), 2, 10.0, 11.0)
    assert list(counters.measured) == [MeasuredStep(1, 2, 8, 1.0)]
