"""The Gittins index against brute force over quanta."""

import math
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import remaining
from engine.core.costs import CostModel
from engine.core.policies import Gittins, Granularity, Size
from ranker.types import LEVELS, Forecast
from tests.engine.core.policy_parts import one_slot, point, running, uniform, waiting

COST = CostModel(base=0.02, decode=0.001, prefill=0.0005, context=0.00001)
EXACT = Granularity(1)
FLAT = CostModel(base=0.02, decode=0.001, prefill=0.0005)
shapes = st.lists(st.floats(0.0, 2000.0), min_size=len(LEVELS), max_size=len(LEVELS)).map(
    lambda drawn: Forecast(1.0, tuple(sorted(drawn)), "ranker", "1")
)


def brute_force(forecast, request, size):
    """Least E[min(W, d)] / P(W <= d) over a fine grid of quanta d, from the knots."""
    done = request.output_tokens
    points = remaining.knots(forecast, done)
    scale, (last, reached) = remaining.tail(forecast), points[-1]
    grid = [
        (low + (high - low) * i / 20, p + (q - p) * i / 20)
        for (low, p), (high, q) in pairwise(points)
        for i in range(21)
    ]
    grid += [
        (last + scale * i / 20, reached + (1 - reached) * -math.expm1(-i / 20)) for i in range(600)
    ]
    best, spent = math.inf, size.to_come(request, done, 0.0)
    for (low, p), (high, q) in pairwise([(0.0, 0.0), *grid]):
        work = size.to_come(request, done, high) - size.to_come(request, done, low)
        spent += work * (1 - (p + q) / 2)
        if q > 0:
            best = min(best, spent / q)
    return best


@settings(max_examples=60)
@given(shapes, st.integers(0, 2200), st.sampled_from([Size(), Size(FLAT, 8)]))
def test_is_the_best_quantum_of_all(forecast, generated, size):
    request = running("a", generated, prompt=40, forecast=forecast)
    found = Gittins(EXACT, size).key(request)[0]
    assert found == pytest.approx(brute_force(forecast, request, size), rel=1e-3)


gaps = st.lists(st.floats(0.0, 170.0), min_size=len(LEVELS), max_size=len(LEVELS)).map(
    lambda drawn: Forecast(1.0, tuple(accumulate(drawn)), "ranker", "1")
)


@settings(max_examples=20)
@given(gaps, st.integers(0, 2200))
def test_attention_that_grows_between_two_quantiles_is_nearly_right(forecast, generated):
    """Between quantiles that lie far apart, and a likely end before them, it is dearer than it is:
    a fifth at 800 tokens, half at 1,300."""
    request = running("a", generated, prompt=40, forecast=forecast)
    size = Size(COST, 8)
    found = Gittins(EXACT, size).key(request)[0]
    assert found == pytest.approx(brute_force(forecast, request, size), rel=0.2)


@given(shapes, st.integers(0, 2200))
def test_no_answer_is_ranked_behind_its_expected_rest(forecast, generated):
    request = running("a", generated, forecast=forecast)
    assert Gittins(EXACT).key(request)[0] <= remaining.mean(forecast, generated) * (1 + 1e-9)


def test_sure_forecasts_are_ranked_by_what_is_left():
    policy = Gittins(EXACT)
    begun = running("a", 70, forecast=point(100))
    # 30 tokens to the end, which 99 of 100 such answers reach.
    assert policy.key(begun)[0] == pytest.approx(30 / 0.99, rel=0.02)
    assert policy.key(waiting("b", 9.0, forecast=point(20))) < policy.key(begun)


def test_early_ends_are_worth_a_try_and_survivors_go_behind():
    quantiles = (10.0,) * 9 + (1000.0,) * 3  # nine in ten end after ten tokens
    forecast = Forecast(0.0, quantiles, "ranker", "1")
    policy = Gittins(EXACT)
    fresh = policy.key(waiting("a", forecast=forecast))[0]
    assert fresh == pytest.approx(10 / 0.8, rel=0.02)
    assert fresh < forecast.mean
    survivor = policy.key(running("b", 10, forecast=forecast))[0]
    assert survivor > 400
    sure = waiting("c", forecast=point(300))
    assert fresh < policy.key(sure)[0] < survivor


def test_a_survivor_gives_way():
    quantiles = (2.0,) * 9 + (1000.0,) * 3
    forecast = Forecast(0.0, quantiles, "ranker", "1")
    requests = [
        waiting("a", 0.0, forecast=forecast, true=6),
        waiting("b", 1.0, forecast=forecast, true=2),
        waiting("c", 1.0, forecast=forecast, true=4),
    ]
    # Two tokens each; whoever is not done by then has about a thousand to go.
    assert one_slot(Gittins(EXACT), requests) == "aabbccaaaacc"


def test_a_rising_hazard_never_gives_way():
    forecast = uniform(100, 200)
    policy = Gittins(EXACT)
    ranks = [policy.key(running("a", n, forecast=forecast))[0] for n in range(0, 190, 10)]
    assert ranks == sorted(ranks, reverse=True)


def test_memoryless_beyond_the_last_quantile():
    policy = Gittins(EXACT)
    ranks = {policy.key(running("a", n, forecast=point(100)))[0] for n in (100, 150, 900)}
    assert ranks == {10.0}


def test_prefill_makes_a_request_longer():
    policy = Gittins(size=Size(COST, 8))
    short = waiting("a", prompt=10, forecast=uniform(0, 100))
    long = waiting("b", prompt=5000, forecast=uniform(0, 100))
    assert policy.key(short) < policy.key(long)


def test_without_forecast_in_front_and_never_keyed_anew():
    policy = Gittins()
    assert policy.key(waiting("a", 4.0)) == (0.0, 4.0)
    assert policy.rekey_after(running("a", 3)) is None
    assert policy.rekey_after(running("a", 3, forecast=point(9))) == 13


def test_granularity_is_named():
    with pytest.raises(ValueError, match="granularity"):
        Granularity(granularity=0)
