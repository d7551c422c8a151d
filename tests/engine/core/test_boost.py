"""The limits, the reference and the fallbacks of the default policy."""

import math
import random

import pytest

from engine.core.costs import CostModel
from engine.core.policies import Boost, BoostConfig, Setting, make
from engine.core.request import Request
from ranker.types import LEVELS, FinishReason, Forecast

COST = CostModel(base=0.0, decode=0.001, prefill=0.0001)


def forecast(tokens, version="1", spread=1.0):
    quantiles = tuple(tokens * (1 + spread * (p - 0.5)) for p in LEVELS)
    return Forecast(math.log(tokens), quantiles, "ranker", version)


def population(count=200, seed=5, span=10.0):
    rng = random.Random(seed)
    return [
        Request(str(i), span * i / count, rng.randint(1, 50), forecast(rng.lognormvariate(5, 1)))
        for i in range(count)
    ]


def order(policy, requests):
    for request in requests:
        policy.arrived(request)
    return [r.id for r in sorted(requests, key=policy.key)]


def expected_work(request):
    return COST.work(request.prompt_tokens, request.forecast.mean, 8)


def ended(request, tokens, reason=FinishReason.STOP):
    request.output_tokens = tokens
    request.finish_reason = reason
    return request


def test_who_left_the_queue_made_no_work():
    policy = Boost(BoostConfig(tier=0.0, k=4.0, floor=0.001, cold=0.001), COST, 8)
    before = policy.gamma
    for i in range(100):
        policy.observe(ended(Request(str(i), 0.0, 50_000), 0, FinishReason.ABORT), 1.0)
    assert policy.gamma == before
    begun = Request("b", 0.0, 50_000, first_scheduled=0.0)
    policy.observe(ended(begun, 0, FinishReason.ABORT), 1.0)
    assert policy.gamma < before


def test_gamma_to_infinity_is_fcfs():
    requests = population()
    policy = Boost(BoostConfig(tier=0.0, k=1e9), COST, 8)
    assert order(policy, requests) == [r.id for r in requests]


def test_gamma_to_zero_is_shortest_expected_work_first():
    requests = population()
    policy = Boost(BoostConfig(tier=0.0, k=1e-9), COST, 8)
    by_work = [r.id for r in sorted(requests, key=expected_work)]
    found = order(policy, requests)
    # Whoever is in the reference's class or longer gets no boost: FCFS among those few.
    longest = len(requests) // 40 + 1
    assert found[:-longest] == by_work[:-longest]


def test_no_tier_and_no_boost_is_fcfs():
    requests = population()
    policy = Boost(BoostConfig(tier=0.0, k=None), COST, 8)
    assert order(policy, requests) == [r.id for r in requests]


def test_boost_formula_by_hand():
    policy = Boost(BoostConfig(tier=0.0, k=4.0, cold=20.0), COST, 8)
    request = Request("a", 0.0, 10, forecast(300.0))
    long = Request("b", 0.0, 10, forecast(3000.0))
    for each in (request, long):
        policy.arrived(each)

    def raw(of):
        m = sum(
            mass * math.exp(0.2 * COST.work(of.prompt_tokens, tokens, 8))
            for mass, tokens in of.forecast.cells()
        )
        return math.log(m / (m - 1)) / 0.2

    assert policy.gamma == pytest.approx(4.0 / 20.0)
    assert policy.boost(request) == pytest.approx(raw(request) - raw(long))
    assert policy.boost(long) == 0.0


def test_without_forecast_order_is_fcfs_and_nobody_is_express():
    requests = [Request(str(i), float(i), 99 - i) for i in range(50)]
    for setting in Setting:
        assert order(make("boost", cost=COST, batch=8, setting=setting), requests) == [
            r.id for r in requests
        ]


def test_a_forecast_that_knows_nothing_gives_exactly_fcfs():
    requests = [Request(str(i), float(i), 1 + (37 * i) % 100, forecast(200.0)) for i in range(80)]
    for setting in Setting:
        policy = make("boost", cost=COST, batch=8, setting=setting)
        assert order(policy, requests) == [r.id for r in requests]


def test_safe_lets_a_share_of_the_work_go_first_and_keeps_the_rest_in_order():
    requests = population(1000)
    policy = make("boost", cost=COST, batch=8, setting="safe")
    keys = {}
    for request in requests:
        policy.arrived(request)
        keys[request.id] = policy.key(request)
    express = [r for r in requests if keys[r.id][0] == 0.0]
    behind = [r for r in requests if keys[r.id][0] == 1.0]
    total = sum(map(expected_work, requests))
    assert 0.005 < sum(map(expected_work, express)) / total <= 0.025
    assert [keys[r.id][1] for r in behind] == [r.arrival for r in behind]


def test_tier_follows_realised_work_not_the_forecasts():
    """Forecasts 5 times too low for the short: the tier shrinks to its true share of work."""
    policy = make("boost", cost=COST, batch=8, setting="fast")
    rng = random.Random(8)
    for i in range(2000):
        short = i % 2 == 0
        tokens = rng.uniform(5, 50) if short else rng.uniform(200, 400)
        request = Request(str(i), i * 0.01, 1, forecast(tokens))
        policy.arrived(request)
        policy.observe(ended(request, int(tokens * (5 if short else 1))), i * 0.01 + 1.0)
    works = [(i, Request(str(i), 0.0, 1, forecast(5.0 + i))) for i in range(46)]
    express = [request for _, request in works if policy.key(request)[0] == 0.0]
    # Work up to label x is about 5·(x² − 5²)/2 of 45 a short pair-half; 12 % of all ends near 28.
    assert 24 <= max(r.forecast.mean for r in express) <= 32


def test_gamma_follows_the_measured_backlog_and_keeps_the_floor():
    policy = Boost(BoostConfig(tier=0.0, k=4.0), COST, 8)
    assert policy.gamma == pytest.approx(4.0 / 20.0)
    for i in range(200):
        request = Request(str(i), 100.0 * i, 1, forecast(100.0 + i))
        policy.arrived(request)
        policy.observe(ended(request, 100), 100.0 * i + 1)
    assert policy.gamma == pytest.approx(4.0 / 5.0)
    for i in range(200, 500):
        request = Request(str(i), 20_000.0, 1, forecast(100.0 + i))
        policy.arrived(request)
        policy.observe(ended(request, 1000), 20_400.0)
    assert policy.gamma < 4.0 / 200.0


def test_m_learns_from_outcomes_that_contradict_the_forecast():
    config = BoostConfig(tier=0.0, k=4.0)
    policy = Boost(config, COST, 8)
    rng = random.Random(9)
    before = None
    for i in range(3000):
        tokens = rng.choice([100.0, 1000.0])
        request = Request(str(i), float(i), 1, forecast(tokens + rng.random()))
        policy.arrived(request)
        if i == 50:
            before = policy.boost(Request("x", 0.0, 1, forecast(100.5)))
        # In truth both kinds are alike.
        policy.observe(ended(request, rng.randint(100, 1000)), i + 1.0)
    after = policy.boost(Request("x", 0.0, 1, forecast(100.5)))
    assert after < before / 4


def test_aborts_are_measured_work_but_no_lengths():
    policy = Boost(BoostConfig(tier=0.0, k=4.0), COST, 8)
    for i in range(500):
        request = Request(str(i), 0.0, 1, forecast(1000.0 + i))
        policy.arrived(request)
        policy.observe(ended(request, 10, FinishReason.ABORT), 1.0)
    probe = Request("x", 0.0, 1, forecast(1000.0))
    fresh = Boost(BoostConfig(tier=0.0, k=4.0), COST, 8)
    for other in (policy, fresh):
        other.arrived(Request("y", 0.0, 1, forecast(5000.0)))
    assert policy.gamma == fresh.gamma
    assert policy._experience.bin_of(1.0, 1.0) is None
    assert policy.boost(probe) > 0.0


def test_another_ranker_version_starts_afresh():
    policy = Boost(BoostConfig(tier=0.0, k=4.0), COST, 8)
    for i in range(200):
        request = Request(str(i), float(i), 1, forecast(100.0 + i))
        policy.arrived(request)
        policy.observe(ended(request, 100), i + 1.0)
    assert policy._experience.bin_of(1.0, 1.0) is not None
    late = Request("late", 1.0, 1, forecast(100.0))
    policy.arrived(Request("new", 300.0, 1, forecast(100.0, version="2")))
    assert policy._experience.bin_of(1.0, 1.0) is None
    policy.observe(ended(late, 100), 301.0)
    assert len(policy._experience) == 0, "an outcome of the old version teaches nothing of the new"


@pytest.mark.parametrize(
    ("kwargs", "field"),
    [
        ({"tier": 1.0, "k": 4.0}, "tier"),
        ({"tier": 0.1, "k": 0.0}, "k must"),
        ({"tier": 0.1, "k": 4.0, "floor": 0.0}, "floor"),
        ({"tier": 0.1, "k": 4.0, "bins": 0}, "bins"),
    ],
)
def test_config_names_the_field(kwargs, field):
    with pytest.raises(ValueError, match=field):
        BoostConfig(**kwargs)


def test_make_names_what_is_wrong():
    with pytest.raises(ValueError, match="fcfs, sjf, ranked, boost"):
        make("lifo")
    with pytest.raises(ValueError, match="cost"):
        make("boost")
    with pytest.raises(ValueError, match="safe or fast"):
        make("boost", cost=COST, batch=8, setting="reckless")
    with pytest.raises(ValueError, match="batch"):
        make("boost", cost=COST, batch=0)
