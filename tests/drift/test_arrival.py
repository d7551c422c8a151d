from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift.arrival import ArrivalOrder, HoldConfig
from ranker.types import FinishReason, Outcome


def _outcome(arrival: float, finished: float, name: str = "") -> Outcome:
    return Outcome(name or f"{arrival}", "m", 5, FinishReason.STOP, arrival, finished)


def _run(order: ArrivalOrder, completions: list[Outcome]) -> list[Outcome]:
    out = [o for completion in completions for o in order.push(completion)]
    return out + order.flush()


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=80))
@settings(max_examples=200, deadline=None)
def test_everything_comes_out_once_in_order_or_is_counted_late(rows):
    completions = sorted(
        (_outcome(a, a + d, f"{i}") for i, (a, d) in enumerate(rows)), key=lambda o: o.finished
    )
    order = ArrivalOrder(HoldConfig(most=16, memory=32))
    out = _run(order, completions)
    arrivals = [o.arrival for o in out]
    assert arrivals == sorted(arrivals)
    assert len({o.request_id for o in out}) == len(out)
    assert len(out) + order.late == len(rows)


def test_a_stream_in_order_is_not_held():
    order = ArrivalOrder(HoldConfig())
    for i in range(300):
        assert [o.arrival for o in order.push(_outcome(i, i))] == [i]
    assert order.held == order.late == 0


def test_once_disorder_is_known_hardly_anything_is_late():
    draw = random.Random(1)
    completions = sorted(
        (_outcome(i, i + draw.expovariate(1 / 40)) for i in range(5000)), key=lambda o: o.finished
    )
    order = ArrivalOrder(HoldConfig())
    for completion in completions[:1000]:
        order.push(completion)
    before = order.late
    for completion in completions[1000:]:
        order.push(completion)
        assert order.held <= 1024
    assert order.late - before < 0.02 * 4000


def test_the_hold_is_bounded():
    order = ArrivalOrder(HoldConfig(most=10, memory=100))
    for i in range(1000, 0, -1):  # the worst order there is
        order.push(_outcome(i, 2000 - i))
    assert order.held <= 10


@pytest.mark.parametrize(("field", "value"), [("most", -1), ("memory", 0), ("keep", 0.0)])
def test_settings_are_checked_by_name(field, value):
    with pytest.raises(ValueError, match=field):
        HoldConfig(**{field: value})
