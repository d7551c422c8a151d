import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.gaps import RESOLUTION, Gaps, ramp_squares

ramps = st.lists(
    st.tuples(st.floats(1e-4, 2.0), st.floats(0.0, 0.01), st.integers(1, 400), st.integers(1, 50)),
    min_size=1,
    max_size=8,
)


@given(ramps)
def test_ramps_are_what_they_stand_for(rows):
    gaps, each = Gaps(), []
    for first, growth, steps, count in rows:
        gaps.add_ramp(first, growth, steps, count)
        each += [first + growth * k for k in range(steps) for _ in range(count)]
    values, found = np.array(each), gaps.latency()
    assert len(gaps) == len(values)
    assert found.mean == pytest.approx(values.mean())
    assert found.std == pytest.approx(values.std(), abs=1e-6 * values.max())
    widest = max(growth for _, growth, _, _ in rows)
    for p in (0.5, 0.9, 0.99):
        # Of a ramp any place within its step is as good, and ranks may fall on either side.
        low, high = np.quantile(
            values, [max(0.0, p - 0.5 / len(values)), min(1.0, p + 1 / len(values))],
            method="inverted_cdf",
        )  # fmt: skip
        assert low / (1 + 2 * RESOLUTION) - widest <= gaps.quantile(p)
        assert gaps.quantile(p) <= high * (1 + 2 * RESOLUTION) + widest


@given(st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=50))
def test_single_gaps_against_numpy(values):
    gaps = Gaps()
    for value in values:
        gaps.add(value)
    median = np.quantile(values, 0.5, method="inverted_cdf")
    assert gaps.quantile(0.5) == pytest.approx(median, rel=RESOLUTION)
    assert gaps.latency().mean == pytest.approx(np.mean(values))


def test_merging_is_counting_both():
    one, other, both = Gaps(), Gaps(), Gaps()
    for gaps in (one, both):
        gaps.add_ramp(0.02, 0.001, 30, 4)
    for gaps in (other, both):
        gaps.add(0.5, 7)
    one.merge(other)
    assert one.latency() == both.latency()


def test_nothing_to_measure():
    assert math.isnan(Gaps().latency().p99)
    assert math.isnan(Gaps().quantile(0.5))


def test_sum_of_squares_by_hand():
    assert ramp_squares(1.0, 2.0, 3) == 1 + 9 + 25
