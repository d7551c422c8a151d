"""One distribution behind quantile, mean, expected shortfall and knots."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core import remaining
from ranker.types import LEVELS, Forecast

tokens = st.floats(0.0, 5000.0) | st.integers(0, 300).map(float)
shapes = st.lists(tokens, min_size=len(LEVELS), max_size=len(LEVELS)).map(
    lambda drawn: Forecast(1.0, tuple(sorted(drawn)), "ranker", "1")
)


def linear(top=1000.0):
    return Forecast(1.0, tuple(top * p for p in LEVELS), "ranker", "1")


def ended_by(forecast, generated, more):
    """P(L <= generated + more | L > generated), read off the knots."""
    points = remaining.knots(forecast, generated)
    x, p = points[-1]
    if more >= x:
        return p + (1 - p) * -math.expm1(-(more - x) / remaining.tail(forecast))
    i = next(i for i in range(len(points)) if points[i][0] > more)
    (low, before), (high, after) = points[i - 1], points[i]
    return before + (after - before) * (more - low) / (high - low)


def test_nothing_generated_is_the_forecast_itself():
    forecast = linear()
    for p in (0.05, 0.3, 0.55, 0.9, 0.99):
        assert remaining.quantile(forecast, 0, p) == pytest.approx(forecast.quantile(p))
    # Beyond the top quantile a tail of mean 40 / ln 5 or a tenth of 990 tokens, with 1 % mass.
    assert remaining.tail(forecast) == 99.0
    assert remaining.mean(forecast, 0) == pytest.approx(forecast.mean + 0.01 * 99.0)


def test_by_hand_in_the_middle_of_a_uniform_forecast():
    forecast = linear()
    # 500 came, so 490 of 1000 levels are left below .99: half of the rest at level .75.
    assert remaining.quantile(forecast, 500, 0.5) == pytest.approx(250.0)
    survived = 0.5
    body = (0.49 / survived) * 245.0
    tail = (0.01 / survived) * (490.0 + 99.0)
    assert remaining.mean(forecast, 500) == pytest.approx(body + tail)


def test_beyond_the_top_the_rest_is_memoryless():
    forecast = Forecast(1.0, (100.0, 200.0), "ranker", "1", levels=(0.5, 0.9))
    scale = 100.0 / math.log(0.5 / 0.1)
    for generated in (200, 300, 5000):
        assert remaining.mean(forecast, generated) == pytest.approx(scale)
        half = remaining.quantile(forecast, generated, 0.5)
        assert half == pytest.approx(scale * math.log(2.0))
        assert remaining.knots(forecast, generated) == [(0.0, 0.0)]


def test_an_outlived_point_forecast_promises_no_end_at_once():
    forecast = Forecast(1.0, (400.0,) * len(LEVELS), "ranker", "1")
    assert remaining.mean(forecast, 399) == pytest.approx(1.0 + 0.01 * 40.0)
    assert remaining.mean(forecast, 400) == 40.0
    assert remaining.quantile(forecast, 399, 0.9) == 1.0
    assert remaining.quantile(Forecast(0.0, (0.0,), "r", "1", levels=(0.5,)), 0, 0.5) == 1.0


def test_an_answer_that_passed_a_class_of_equal_lengths_leaves_it_behind():
    forecast = Forecast(1.0, (10.0, 10.0, 900.0), "ranker", "1", levels=(0.3, 0.6, 0.9))
    assert remaining.quantile(forecast, 0, 0.5) == 10.0
    assert remaining.quantile(forecast, 10, 0.375) == pytest.approx(445.0)
    assert remaining.knots(forecast, 4) == [
        (0.0, 0.0), (6.0, 0.0), (6.0, 0.3), (6.0, 0.6), (896.0, 0.9)
    ]  # fmt: skip


@given(shapes, st.integers(0, 6000), st.floats(0.001, 0.999))
def test_quantile_inverts_the_knots(forecast, generated, p):
    found = remaining.quantile(forecast, generated, p)
    assert found >= 1.0
    assert ended_by(forecast, generated, found) >= p - 1e-9
    if found > 1.0:
        assert ended_by(forecast, generated, found * (1 - 1e-6) - 1e-6) <= p + 1e-4


@given(shapes, st.integers(0, 6000))
def test_mean_is_the_integral_of_the_survival_function(forecast, generated):
    points = remaining.knots(forecast, generated)
    area = sum((after - before) * (1 - (p + q) / 2) for (before, p), (after, q) in pairwise(points))
    area += (1 - points[-1][1]) * remaining.tail(forecast)
    assert remaining.mean(forecast, generated) == pytest.approx(max(1.0, area), rel=1e-9)


@given(shapes, st.floats(0.0, 0.999))
def test_expected_shortfall_is_the_mean_of_the_quantiles_above(forecast, level):
    steps = 4000
    # Midpoints in -ln(1 - u), in which the tail is linear; the rest beyond 25 means is negligible.
    width = 25.0 / steps
    total = sum(
        width * math.exp(-x) * shortfall_quantile(forecast, 1 - (1 - level) * math.exp(-x))
        for x in (width * (i + 0.5) for i in range(steps))
    )
    found = remaining.mean_above(forecast, level)
    assert found == pytest.approx(total, rel=2e-3, abs=0.5)


def shortfall_quantile(forecast, u):
    if u <= forecast.levels[-1]:
        return forecast.quantile(u)
    excess = remaining.tail(forecast) * math.log((1 - forecast.levels[-1]) / (1 - u))
    return forecast.quantiles[-1] + excess


@given(shapes, st.integers(0, 5000), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_quantiles_ascend(forecast, generated, p, q):
    low, high = sorted((p, q))
    at_low = remaining.quantile(forecast, generated, low)
    assert at_low <= remaining.quantile(forecast, generated, high) + 1e-9


@pytest.mark.parametrize("p", [0.0, 1.0, -0.5, math.nan])
def test_probability_must_lie_inside(p):
    with pytest.raises(ValueError, match=r"\(0, 1\)"):
        remaining.quantile(linear(), 0, p)
