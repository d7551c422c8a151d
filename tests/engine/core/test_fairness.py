"""Virtual token counters: equal service for the backlogged, no credit for the idle."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.fairness import FairnessConfig, VirtualCounters
from engine.core.lanes import Lane, LaneConfig
from engine.core.policies import Fcfs
from engine.core.request import Request
from engine.core.room import Room
from ranker.types import FinishReason, Forecast


class World:
    """A room of one lane, whose requests end as soon as they are admitted."""

    def __init__(self, **fairness):
        self.room = Room([Lane(LaneConfig("only"), Fcfs())], FairnessConfig(**fairness), 10**6)
        self.count = 0

    def push(self, tenant, prompt=1, output=None):
        forecast = None if output is None else Forecast(1.0, (float(output),), "r", "1", (0.5,))
        request = Request(str(self.count), 0.0, prompt, forecast, tenant=tenant)
        self.room.push(request, ((0.0,), self.count), 0.0, 0)
        self.count += 1
        return request

    def admit(self):
        head = self.room.head(0.0)
        self.room.pop(head, 0.0)
        return head

    def end(self, request, output):
        request.output_tokens, request.finish_reason = output, FinishReason.STOP
        self.room.settle(request, 0.0)

    def serve(self):
        head = self.admit()
        self.end(head, int(head.forecast.mean) if head.forecast else 0)
        return head


@pytest.mark.parametrize("name", ["input_weight", "output_weight", "credit", "expected_output"])
@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_weights_are_finite_and_not_negative(name, value):
    with pytest.raises(ValueError, match=re.escape(f"fairness.{name}")):
        FairnessConfig(**{name: value})


def test_weights_of_tenants_are_above_zero():
    with pytest.raises(ValueError, match=re.escape("fairness.weights['a']")):
        FairnessConfig(weights={"a": 0.0})
    with pytest.raises(ValueError, match="must not both be 0"):
        FairnessConfig(input_weight=0.0, output_weight=0.0)


sizes = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=30, max_size=30)


@given(sizes, sizes, st.sampled_from([0.5, 1.0, 2.0]))
def test_backlogged_tenants_stay_within_one_charge(ours, theirs, weight):
    """The bound of Sheng et al. 2024, with whole requests as the unit of service."""
    world = World(weights={"a": weight})
    for prompt, output in ours:
        world.push("a", prompt, output)
    for prompt, output in theirs:
        world.push("b", prompt, output)
    largest = max(
        max(prompt + 2 * output for prompt, output in ours) / weight,
        max(prompt + 2 * output for prompt, output in theirs),
    )
    left = {"a": 30, "b": 30}
    while min(left.values()) > 1:
        left[world.serve().tenant] -= 1
        assert abs(world.room.virtual("a") - world.room.virtual("b")) <= largest


def test_service_follows_weights():
    world = World(weights={"heavy": 3.0})
    for _ in range(400):
        world.push("heavy", 10, 20)
        world.push("light", 10, 20)
    served = [world.serve().tenant for _ in range(400)]
    assert served.count("heavy") == 300


def test_a_flood_delays_another_tenant_by_one_request():
    world = World()
    for _ in range(1000):
        world.push("flood", 10, 20)
    for _ in range(50):
        world.serve()
        world.push("small", 10, 20)
        assert "small" in {world.serve().tenant, world.serve().tenant}


def test_idleness_earns_no_credit():
    world = World()
    for _ in range(100):
        world.push("busy", 1, 10)
    for _ in range(50):
        world.serve()
    for _ in range(20):
        world.push("late", 1, 10)
    assert world.room.virtual("late") == world.room.virtual("busy") == 50 * 21.0
    served = [world.serve().tenant for _ in range(20)]
    assert served.count("busy") == 10


def test_with_credit_a_burst_of_so_much_goes_ahead():
    world = World(credit=63.0)
    for _ in range(100):
        world.push("busy", 1, 10)
    for _ in range(50):
        world.serve()
    for _ in range(20):
        world.push("late", 1, 10)
    served = [world.serve().tenant for _ in range(23)]
    assert served.count("late") == 13, "three of the credit, then every other one"
    assert served[:3] == ["late"] * 3


def test_after_an_idle_spell_the_last_to_leave_sets_the_level():
    world = World()
    world.push("old", 1, 10)
    world.serve()
    world.push("new", 1, 10)
    assert world.room.virtual("new") == world.room.virtual("old") == 21.0


def test_who_is_served_more_than_others_pays_when_it_returns():
    world = World()
    world.push("big", 1000, 0)
    world.push("small", 1, 0)
    assert [world.serve().tenant for _ in range(2)] == ["big", "small"]
    first, second = world.push("small", 1, 0), world.push("big", 1, 0)
    third = world.push("small", 1, 0)
    assert [world.serve() for _ in range(3)] == [first, third, second]


def test_the_forecast_is_charged_first_and_the_truth_last():
    world = World()
    request = world.push("a", prompt=7, output=10)
    world.admit()
    assert world.room.virtual("a") == 27.0
    world.end(request, 25)
    assert world.room.virtual("a") == 57.0


def test_a_preempted_request_is_charged_once():
    world = World()
    request = world.push("a", 7, 10)
    world.admit()
    world.room.push(request, ((0.0,), 0), 1.0, 1)
    assert world.room.virtual("a") == 27.0
    world.admit()
    assert world.room.virtual("a") == 27.0
    world.end(request, 10)
    world.room.settle(request, 0.0)
    assert world.room.virtual("a") == 27.0


def test_a_request_that_was_never_admitted_costs_nothing():
    world = World()
    request = world.push("a", 7, 10)
    world.room.remove(request)
    request.finish_reason = FinishReason.ABORT
    world.room.settle(request, 0.0)
    assert world.room.virtual("a") == 0.0


def test_what_answers_without_a_forecast_are_expected_to_be_is_learned():
    world = World(expected_output=50.0)
    first, second = world.push("a"), world.push("b")
    world.admit()
    assert world.room.virtual("a") == 101.0
    world.end(first, 30)
    world.admit()
    assert world.room.virtual("b") == 61.0, "the first outcome replaces the assumption"
    second.output_tokens, second.finish_reason = 4, FinishReason.ABORT
    world.room.settle(second, 0.0)
    assert world.room.virtual("b") == 9.0
    world.push("c")
    least = world.room.virtual("c")
    world.admit()
    assert world.room.virtual("c") == least + 61.0, "an abort teaches nothing"


def test_ties_between_tenants_go_to_the_first_place():
    world = World()
    requests = [world.push(tenant) for tenant in "cab"]
    assert [world.serve() for _ in range(3)] == requests


def test_counters_of_idle_tenants_are_forgotten_without_consequence():
    world = World()
    world.push("flood", 5, 0)
    for number in range(5000):
        world.push("flood", 5, 0)
        world.push(f"visitor {number}", 5, 0)
        world.serve()
        world.serve()
    counters = world.room._first.counters
    assert counters is not None
    assert len(counters) < 2500
    least = world.room.virtual("flood")
    world.push("visitor 0", 5, 0)
    assert world.room.virtual("visitor 0") >= least


def test_a_name_that_waits_or_runs_is_never_forgotten():
    counters = VirtualCounters(lambda name: 1.0)
    for number in range(2000):
        counters.charge(str(number), 1.0)
    assert counters.crowded
    counters.left("7")
    counters.forget(1.0, {"3"})
    assert len(counters) == 2
    assert counters.value("3") == counters.value("7") == counters.floor == 1.0
    assert not counters.crowded
