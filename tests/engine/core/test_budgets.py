"""Hard token budgets: how much a bucket gives, and that a room obeys it in all its lanes."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.budgets import Buckets, Budget
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane, LaneConfig
from engine.core.policies import Fcfs
from engine.core.request import Request
from engine.core.room import Room
from ranker.types import FinishReason


def room_with(budgets, *lanes, **fairness):
    lanes = lanes or (LaneConfig("only"),)
    config = FairnessConfig(budgets=budgets, expected_output=0.0, **fairness)
    return Room([Lane(lane, Fcfs()) for lane in lanes], config, 1000)


def push(room, name, tenant, prompt, now=0.0, lane=""):
    request = Request(name, now, prompt, tenant=tenant, lane=lane)
    room.push(request, ((now,), int(name)), now, 0)
    return request


@pytest.mark.parametrize("field", ["rate", "burst"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_budget_is_finite_and_above_zero(field, value):
    with pytest.raises(ValueError, match=re.escape(f"budget.{field}")):
        Budget(**{"rate": 1.0, "burst": 1.0, field: value})


charges = st.lists(st.tuples(st.floats(0.0, 20.0), st.integers(-30, 60)), max_size=40)


@given(st.floats(0.5, 20.0), st.floats(1.0, 50.0), charges)
def test_a_bucket_fills_at_its_rate_up_to_its_burst(rate, burst, charges):
    buckets = Buckets(lambda tenant: Budget(rate, burst))
    level, now = burst, 0.0
    for wait, tokens in charges:
        now += wait
        level = min(burst, level + rate * wait)
        assert buckets.level("t", now) == pytest.approx(level, abs=1e-6)
        if level < -1e-6:
            assert buckets.ready_at("t") == pytest.approx(now - level / rate)
        elif level > 1e-6:
            assert buckets.ready_at("t") <= now
        buckets.charge("t", tokens, now)
        level -= tokens


def test_without_a_budget_nothing_is_kept():
    buckets = Buckets(lambda tenant: None)
    buckets.charge("t", 1e9, 0.0)
    assert buckets.level("t", 0.0) == math.inf
    assert buckets.ready_at("t") == -math.inf
    assert len(buckets) == 0


def test_full_buckets_are_forgotten():
    buckets = Buckets(lambda tenant: Budget(rate=1.0, burst=10.0))
    buckets.charge("debtor", 1e6, 0.0)
    for number in range(20_000):
        buckets.charge(str(number), 1.0, float(number))
    assert len(buckets) < 3_000
    assert buckets.level("debtor", 20_000.0) == 10.0 + 20_000.0 - 1e6


@given(
    st.floats(0.5, 5.0),
    st.floats(1.0, 40.0),
    st.lists(st.tuples(st.floats(0.0, 4.0), st.integers(1, 30)), min_size=1, max_size=60),
)
def test_no_window_holds_more_than_rate_burst_and_one_request(rate, burst, steps):
    room = room_with({"t": Budget(rate, burst)})
    now, used = 0.0, []
    for number, (wait, prompt) in enumerate(steps):
        now += wait
        push(room, str(number), "t", prompt, now)
        while (head := room.head(now)) is not None:
            room.pop(head, now)
            used.append((now, head.prompt_tokens))
    for first, (start, _) in enumerate(used):
        for last in range(first, len(used)):
            tokens = sum(count for _, count in used[first : last + 1])
            allowed = burst + rate * (used[last][0] - start) + used[last][1]
            assert tokens <= allowed + 1e-6


def test_a_tenant_in_debt_lets_others_pass_until_it_is_paid_off():
    room = room_with({"poor": Budget(rate=2.0, burst=10.0)})
    first, second = push(room, "0", "poor", 30), push(room, "1", "poor", 1)
    rich = push(room, "2", "rich", 1)
    assert room.head(0.0) is first
    room.pop(first, 0.0)
    assert room.head(0.0) is rich
    room.pop(rich, 0.0)
    assert room.head(0.0) is None
    assert room.next_event(0.0) == 10.0  # 30 − 10 tokens owed, two a second
    assert room.head(9.99) is None
    assert room.head(10.0) is second
    assert room.next_event(10.0) is None


def test_even_the_overdue_wait_for_budget_and_go_first_then():
    room = room_with({"poor": Budget(rate=1.0, burst=1.0)}, LaneConfig("only", max_wait=5.0))
    first, late = push(room, "0", "poor", 21), push(room, "1", "poor", 1)
    room.pop(first, 0.0)
    other = push(room, "2", "rich", 1, now=15.0)
    assert room.head(15.0) is other
    assert room.head(20.0) is late


def test_a_budget_binds_in_all_lanes_together():
    room = room_with({"poor": Budget(rate=1.0, burst=4.0)}, LaneConfig("a"), LaneConfig("b"))
    there = push(room, "0", "poor", 8, lane="a")
    here = push(room, "1", "poor", 1, lane="b")
    assert list(room.heads(0.0)) == [there, here]
    room.pop(there, 0.0)
    assert room.head(0.0) is None
    # The answer adds eight tokens; the bill is known once it has ended.
    assert room.next_event(0.0) == 4.0
    there.output_tokens, there.finish_reason = 8, FinishReason.STOP
    room.settle(there, 0.0)
    assert room.next_event(0.0) == 12.0
    assert room.head(11.0) is None
    assert room.head(12.0) is here


def test_a_debtor_is_no_measure_for_tenants_that_return():
    room = room_with({"poor": Budget(rate=1e-3, burst=1.0)})
    room.pop(push(room, "0", "poor", 9), 0.0)
    push(room, "1", "poor", 9)
    room.pop(push(room, "2", "rich", 100), 0.0)
    push(room, "3", "late", 1)
    assert room.virtual("late") == room.virtual("rich") > room.virtual("poor")


def test_a_lane_of_debtors_is_no_measure_for_lanes_that_return():
    lanes = [LaneConfig(name) for name in "abc"]
    room = room_with({"poor": Budget(rate=1e-3, burst=1.0)}, *lanes)
    room.pop(push(room, "0", "poor", 9, lane="a"), 0.0)
    push(room, "1", "poor", 9, lane="a")
    room.pop(push(room, "2", "rich", 100, lane="b"), 0.0)
    push(room, "3", "late", 1, lane="c")
    assert room.lane_virtual("c") == room.lane_virtual("b") > room.lane_virtual("a")


def test_what_was_charged_too_much_opens_the_budget_earlier():
    config = FairnessConfig(default_budget=Budget(rate=1.0, burst=1.0), expected_output=100.0)
    room = Room([Lane(LaneConfig("only"), Fcfs())], config, 10)
    first, second = push(room, "0", "t", 1), push(room, "1", "t", 1)
    room.pop(first, 0.0)
    assert room.head(0.0) is None
    assert room.next_event(0.0) == 100.0
    first.output_tokens, first.finish_reason = 20, FinishReason.STOP
    room.settle(first, 0.0)
    assert room.next_event(0.0) == 20.0
    assert room.head(20.0) is second


def test_what_was_charged_too_little_is_owed_from_the_end_on():
    room = room_with({"t": Budget(rate=1.0, burst=10.0)})
    first = push(room, "0", "t", 5)
    room.pop(first, 0.0)
    first.output_tokens, first.finish_reason = 20, FinishReason.STOP
    room.settle(first, 100.0)  # the bucket has long been full again
    second = push(room, "1", "t", 1, now=100.0)
    assert room.head(100.0) is None
    assert room.next_event(100.0) == 110.0
    assert room.head(110.0) is second


def test_who_was_admitted_once_is_paid_for():
    room = room_with({"poor": Budget(rate=1.0, burst=1.0)})
    stream, newcomer = push(room, "0", "poor", 50), push(room, "1", "poor", 1)
    room.pop(stream, 0.0)
    room.push(stream, ((9.0,), 0), 1.0, 0)  # preempted, and behind the newcomer in order
    assert room.head(1.0) is stream
    room.pop(stream, 1.0)
    assert room.head(1.0) is None
    assert room.head(49.0) is newcomer, "resuming is not charged again"


def test_a_preempted_request_competes_at_its_tenants_counter_as_it_is_now():
    room = room_with({"poor": Budget(rate=1e-3, burst=1.0)})
    stream, another = push(room, "0", "poor", 10), push(room, "1", "poor", 100)
    other = push(room, "2", "rich", 1)
    for request in (stream, another, other):
        room.pop(request, 0.0)
    room.push(stream, ((0.0,), 0), 0.0, 0)
    second = push(room, "3", "rich", 1)
    assert room.virtual("rich") == room.virtual("poor") == 110.0
    assert room.head(0.0) is stream, "a tie goes to the first place"
    another.output_tokens, another.finish_reason = 1, FinishReason.STOP
    room.settle(another, 0.0)
    assert room.head(0.0) is second


def test_budgets_alone_do_not_reorder():
    room = room_with({"c": Budget(1.0, 1.0)}, counters=False)
    requests = [push(room, str(i), tenant, 100) for i, tenant in enumerate("abacab")]
    served = []
    while (head := room.head(0.0)) is not None:
        room.pop(head, 0.0)
        served.append(head)
    assert served == requests
    assert room.virtual("a") == 0.0
