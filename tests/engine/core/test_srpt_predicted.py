"""Predicted remaining time, and who cannot be displaced."""

import math

import pytest

from engine.core import remaining
from engine.core.costs import CostModel
from engine.core.policies import Size, SrptPredicted, SrptPredictedConfig
from engine.core.request import Status
from tests.engine.core.policy_parts import one_slot, point, running, uniform, waiting


def test_least_expected_rest_first_given_what_has_come():
    policy = SrptPredicted(SrptPredictedConfig(granularity=1, protect=math.inf))
    begun = running("a", 300, 0.0, forecast=uniform(0, 1000))
    fresh = waiting("b", 1.0, forecast=uniform(0, 600))
    assert policy.key(begun) == (remaining.mean(begun.forecast, 300), 0.0)
    assert policy.key(fresh) < policy.key(begun)
    begun.output_tokens = 500
    assert policy.key(begun) < policy.key(fresh)


def test_an_outlived_forecast_moves_behind():
    policy = SrptPredicted(SrptPredictedConfig(protect=math.inf))
    outlived = running("a", 400, forecast=point(400))
    assert policy.key(outlived)[0] == 40.0
    assert policy.key(waiting("b", 9.0, forecast=point(30))) < policy.key(outlived)


def test_protected_from_four_fifths_of_the_first_prediction_on():
    config = SrptPredictedConfig(granularity=16)
    requests = [
        waiting("a", 0.0, forecast=point(20), true=20),
        waiting("b", 15.0, forecast=point(1), true=1),
        waiting("c", 18.0, forecast=point(1), true=1),
    ]
    # First predicted: 20.02 with the tail; .8 of it is 16.02, so the 17th token protects. b comes
    # before that and displaces a, c does not.
    assert one_slot(SrptPredicted(config), requests) == "a" * 15 + "b" + "aaaaa" + "c"


def test_keyed_anew_exactly_where_protection_begins():
    policy = SrptPredicted(SrptPredictedConfig(granularity=16))
    forecast = uniform(0, 100)
    limit = math.ceil(0.8 * remaining.mean(forecast, 0))
    assert policy.rekey_after(running("a", 0, forecast=forecast)) == 1
    assert policy.rekey_after(running("a", 1, forecast=forecast)) == 15
    assert policy.rekey_after(running("a", limit - 3, forecast=forecast)) == 3
    assert policy.rekey_after(running("a", limit, forecast=forecast)) is None
    assert policy.key(running("a", limit, 5.0, forecast=forecast)) == (-1.0, 5.0)
    assert policy.key(running("a", limit - 1, forecast=forecast))[0] > 0


def test_nobody_who_waits_lies_before_a_protected_one():
    policy = SrptPredicted()
    protected = running("a", 90, 50.0, forecast=point(100))
    stopped = running("b", 90, 1.0, forecast=point(100))
    stopped.status = Status.WAITING  # for want of memory
    unscored = waiting("c", 2.0)
    fresh = waiting("d", 0.0, forecast=point(1))
    order = sorted((protected, stopped, unscored, fresh), key=policy.key)
    assert [request.id for request in order] == ["a", "b", "c", "d"]


def test_without_forecast_protected_from_the_first_token_on():
    policy = SrptPredicted()
    assert policy.key(waiting("a", 3.0)) == (0.0, 3.0)
    assert policy.rekey_after(running("a", 0)) == 1
    assert policy.key(running("a", 1, 3.0)) == (-1.0, 3.0)
    assert policy.rekey_after(running("a", 1)) is None


def test_protection_goes_by_the_first_forecast_and_is_forgotten_at_the_end():
    policy = SrptPredicted(SrptPredictedConfig(protect=0.5))
    request = running("a", 60, forecast=point(100))
    assert policy.key(request)[0] == -1.0
    request.forecast = point(1000)
    assert policy.key(request)[0] == -1.0
    policy.observe(request, 1.0)
    assert policy.key(request)[0] > 0.0


def test_zero_protects_whoever_has_begun():
    requests = [
        waiting("a", 0.0, forecast=point(9), true=3),
        waiting("b", 1.0, forecast=point(5), true=2),
        waiting("c", 1.0, forecast=point(2), true=1),
    ]
    assert one_slot(SrptPredicted(SrptPredictedConfig(protect=0.0)), requests) == "aaacbb"


def test_work_with_a_cost_model():
    cost = CostModel(0.0, 0.001, 0.01)
    summary = waiting("a", 0.0, prompt=1000, forecast=point(10))
    talk = waiting("b", 1.0, prompt=10, forecast=point(200))
    assert SrptPredicted().key(summary) < SrptPredicted().key(talk)
    policy = SrptPredicted(size=Size(cost, 1))
    assert policy.key(talk) < policy.key(summary)


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"granularity": 0}, "granularity"), ({"protect": -0.1}, "protect"),
     ({"protect": math.nan}, "protect")],
)  # fmt: skip
def test_config_names_the_field(fields, named):
    with pytest.raises(ValueError, match=named):
        SrptPredictedConfig(**fields)
