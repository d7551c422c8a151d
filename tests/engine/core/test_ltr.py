"""The published rank order with its starvation rule."""

import math

import pytest

from engine.core.policies import Ltr, LtrConfig, Starvation
from tests.engine.core.policy_parts import one_slot, point, running, waiting


def test_defaults_are_the_authors():
    assert LtrConfig() == LtrConfig(starvation=200, period=10)
    assert Ltr().starvation == Starvation(steps=200)


def test_lower_scores_preempt():
    requests = [
        waiting("a", 0.0, forecast=point(9), true=4),
        waiting("b", 1.0, forecast=point(5), true=2),
        waiting("c", 2.0, forecast=point(7), true=1),
    ]
    assert one_slot(Ltr(), requests) == "abbcaaa"


def test_a_starved_request_runs_for_its_period_then_has_its_old_place():
    policy = Ltr(LtrConfig(starvation=5, period=2))
    long = waiting("z", 0.0, forecast=point(99), true=4)
    short = [waiting(c, 2.0 * i, forecast=point(1), true=2) for i, c in enumerate("abcdefgh")]
    # z waits 5 steps and runs 2, twice; nobody else waits for 5.
    assert one_slot(policy, [long, *short]) == "aabbczzcddeezzffgghh"


def test_promotion_lasts_while_it_waits_and_counts_output_tokens():
    policy = Ltr(LtrConfig(starvation=5, period=3))
    request = running("z", 7, 1.0, forecast=point(99))
    assert policy.key(request) == (0.0, 99.0, 1.0)
    assert policy.rekey_after(request) is None
    policy.starved(request)
    assert policy.key(request) == (-1.0, 99.0, 1.0)
    assert policy.rekey_after(request) == 3
    request.output_tokens = 9
    assert policy.key(request)[0] == -1.0
    assert policy.rekey_after(request) == 1
    request.output_tokens = 10
    assert policy.key(request)[0] == 0.0
    assert policy.rekey_after(request) is None


def test_without_forecast_in_front_in_order_of_arrival():
    policy = Ltr()
    keys = [policy.key(waiting("a", arrival)) for arrival in (2.0, 1.0)]
    assert sorted(keys) == [(0.0, -math.inf, 1.0), (0.0, -math.inf, 2.0)]
    assert policy.key(waiting("b", 0.0, forecast=point(1))) > keys[0]
    starved = waiting("c", 0.0, forecast=point(1))
    policy.starved(starved)
    assert policy.key(starved) < keys[0]


@pytest.mark.parametrize("field", ["starvation", "period"])
def test_config_names_the_field(field):
    with pytest.raises(ValueError, match=field):
        LtrConfig(**{field: 0})
