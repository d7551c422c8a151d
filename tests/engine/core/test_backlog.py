import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.backlog import Backlog


def virtual(entries, window, slots):
    """Again from the definition: waits and stays, each request on the slot that is free first."""
    entries = sorted(entries)
    newest = entries[-1][0]
    kept = [(arrival, work) for arrival, work in entries if arrival >= newest - window]
    free = [-np.inf] * slots
    waits, stays = [], []
    for arrival, work in kept:
        slot = int(np.argmin(free))
        start = max(arrival, free[slot])
        free[slot] = start + work * slots
        waits.append(start - arrival)
        stays.append(free[slot] - arrival)
    return waits, stays, [work * slots for _, work in kept]


def percentile(values, share):
    return float(np.quantile(values, share, method="inverted_cdf"))


entries = st.lists(st.tuples(st.floats(0.0, 100.0), st.floats(0.0, 9.0)), min_size=1, max_size=31)


@given(entries, st.floats(1.0, 50.0), st.integers(1, 5))
def test_is_the_percentile_of_a_queue_before_equal_slots(found, window, slots):
    backlog = Backlog(window, slots, 0.9)
    for entry in found:
        assert backlog.add(*entry)
    # The window forgets as it goes; a late finisher from before it is forgotten at once.
    waits, stays, services = virtual(found, window, slots)
    assert backlog.value == pytest.approx(percentile(waits, 0.9))
    slack = percentile(stays, 0.9) - percentile(services, 0.9)
    assert backlog.slack == pytest.approx(max(0.0, slack), abs=1e-9)


def test_one_slot_is_the_lindley_recursion():
    rng = random.Random(4)
    backlog, left, last, waits = Backlog(1e9, 1, 0.5), 0.0, 0.0, []
    for i in range(31):
        arrival, work = i + rng.random(), rng.expovariate(1.0)
        left = max(0.0, left - (arrival - last))
        waits.append(left)
        left, last = left + work, arrival
        backlog.add(arrival, work)
    assert backlog.value == pytest.approx(percentile(waits, 0.5))


def test_order_of_ending_does_not_matter():
    found = [(float(i), 1.5) for i in range(20)]
    values = []
    for order in (found, found[::-1]):
        backlog = Backlog(1000.0)
        for entry in order:
            backlog.add(*entry)
        values.append((backlog.value, backlog.slack))
    # The 20th finds half a second from each before it; all take equally long, so slack is wait.
    assert values[0] == values[1] == pytest.approx((19 * 0.5, 19 * 0.5))


def test_remembers_no_more_than_it_may():
    backlog = Backlog(1e9, entries=10)
    for _ in range(1000):
        backlog.add(0.0, 1.0)
    # All arrive at once: the last of ten waits for nine, and a few more until the next clearing.
    assert 9.0 <= backlog.value <= 11.0


def test_names_the_field():
    with pytest.raises(ValueError, match="window"):
        Backlog(0.0)
    with pytest.raises(ValueError, match="slots"):
        Backlog(1.0, 0)
    with pytest.raises(ValueError, match="percentile"):
        Backlog(1.0, 1, 1.0)
    with pytest.raises(ValueError, match="entries"):
        Backlog(1.0, entries=0)
