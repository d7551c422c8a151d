"""Tail-inflated expectation, and ageing without a clock."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core import remaining
from engine.core.costs import CostModel
from engine.core.policies import Size, Tie, TieConfig
from ranker.types import LEVELS, Forecast
from tests.engine.core.policy_parts import point, uniform, waiting


def score(policy, request):
    """Undo the ageing."""
    return math.exp(policy.key(request)[0] - policy._rate * request.arrival)


def test_expectation_and_tail_by_hand():
    policy = Tie(TieConfig(beta=0.5))
    request = waiting("a", forecast=uniform(0, 1000))
    # Beyond level .9: linear up to 990 tokens at .99, then a tail of mean 99.
    shortfall = (0.09 * 945 + 0.01 * (990 + 99)) / 0.1
    expected = remaining.mean(request.forecast, 0) + 0.5 * shortfall
    assert score(policy, request) == pytest.approx(expected)


def test_of_two_with_one_mean_the_surer_goes_first():
    sure = waiting("a", 1.0, forecast=point(300))
    quantiles = (100.0,) * 9 + (900.0,) * 3
    risky = waiting("b", 0.0, forecast=Forecast(0.0, quantiles, "ranker", "1"))
    assert remaining.mean(risky.forecast, 0) < remaining.mean(sure.forecast, 0)
    assert Tie(TieConfig(beta=0.0)).key(risky) < Tie(TieConfig(beta=0.0)).key(sure)
    assert Tie(TieConfig(beta=0.5)).key(sure) < Tie(TieConfig(beta=0.5)).key(risky)


lengths = st.floats(1.0, 3000.0)
times = st.floats(0.0, 600.0)


@given(lengths, times, lengths, times, times)
def test_static_keys_order_as_decayed_scores_do_at_any_time(one, began, other, later, wait):
    policy = Tie()
    a, b = waiting("a", began, forecast=point(one)), waiting("b", later, forecast=point(other))
    now = max(began, later) + wait

    def decayed(request):
        undecayed = Tie(TieConfig(decay=1.0)).key(request)[0]
        return math.exp(undecayed) * 0.9 ** ((now - request.arrival) / 30.0)

    if decayed(a) < decayed(b) * (1 - 1e-9):
        assert policy.key(a) < policy.key(b)
    if decayed(b) < decayed(a) * (1 - 1e-9):
        assert policy.key(b) < policy.key(a)


def test_beta_follows_the_queue():
    policy = Tie(size=Size(batch=10))
    requests = [waiting(str(i)) for i in range(100)]
    found = []
    for request in requests:
        policy.arrived(request)
        found.append(policy.beta)
    # .1 up to a full batch that waits, then .1 for each, at most .5.
    assert found[19] == 0.1
    assert found[39] == pytest.approx(0.3)
    assert found[59] == found[99] == 0.5
    policy.arrived(requests[99])
    for request in requests:
        policy.observe(request, 1.0)
    assert policy.beta == 0.1
    assert Tie(TieConfig(beta=0.7), Size(batch=10)).beta == 0.7


def test_work_with_a_cost_model():
    cost = CostModel(0.0, 0.001, 0.01)
    summary = waiting("a", 0.0, prompt=1000, forecast=point(10))
    talk = waiting("b", 0.0, prompt=10, forecast=point(200))
    assert Tie().key(summary) < Tie().key(talk)
    assert Tie(size=Size(cost, 1)).key(talk) < Tie(size=Size(cost, 1)).key(summary)


def test_answers_of_no_length_have_a_score():
    empty = Forecast(0.0, (0.0,) * len(LEVELS), "ranker", "1")
    assert math.isfinite(Tie().key(waiting("a", forecast=empty))[0])


def test_without_forecast_in_front():
    assert Tie().key(waiting("a", 4.0)) == (-math.inf, 4.0)


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"beta": -1.0}, "beta"), ({"alpha": 1.0}, "alpha"), ({"decay": 0.0}, "decay"),
     ({"every": 0.0}, "every")],
)  # fmt: skip
def test_config_names_the_field(fields, named):
    with pytest.raises(ValueError, match=named):
        TieConfig(**fields)
