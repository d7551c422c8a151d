"""The limits, the reference and the fallbacks of the default policy."""

import math
import random

import pytest

from engine.core.costs import CostModel
from engine.core.policies import Boost, BoostConfig, Setting, make
from engine.core.policies.boost import EXPRESS
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
    for i in range(20):  # more than the eight slots, so that some would have waited
        begun = Request(f"b{i}", 0.0, 50_000, first_scheduled=0.0)
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
    behind = [r for r in requests if keys[r.id][0] == 2.0]
    total = sum(map(expected_work, requests))
    assert 0.01 < sum(map(expected_work, express)) / total <= 0.035
    assert [keys[r.id][1] for r in behind] == [r.arrival for r in behind]


def test_tier_follows_realised_work_not_the_forecasts():
    """Forecasts 5 times too low for the short: the tier shrinks to its true share of work."""
    policy = Boost(BoostConfig(tier=0.12, k=None), COST, 8)
    rng = random.Random(8)
    for i in range(2000):
        short = i % 2 == 0
        tokens = rng.uniform(5, 50) if short else rng.uniform(200, 400)
        request = Request(str(i), i * 0.01, 1, forecast(tokens))
        policy.arrived(request)
        policy.observe(ended(request, int(tokens * (5 if short else 1))), i * 0.01 + 1.0)
    probes = [Request(f"p{i}", 0.0, 1, forecast(5.0 + i)) for i in range(46)]
    express = [request for request in probes if policy.key(request)[0] == 0.0]
    # Work up to label x is about 5·(x² − 5²)/2 of 45 a short pair-half; 12 % of all ends near 28.
    assert 24 <= max(r.forecast.mean for r in express) <= 32


def test_gamma_follows_the_measured_backlog_and_keeps_the_floor():
    policy = Boost(BoostConfig(tier=0.0, k=4.0, floor=5.0), COST, 8)
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
        ({"tier": 0.1, "k": -1.0}, "k must"),
        ({"tier": 0.1, "k": None, "patience": 0.0}, "patience"),
        ({"tier": 0.1, "k": None, "brevity": -1.0}, "brevity"),
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
    with pytest.raises(ValueError, match="balanced, safe or fast"):
        make("boost", cost=COST, batch=8, setting="reckless")
    with pytest.raises(ValueError, match="batch"):
        make("boost", cost=COST, batch=0)


def learned(policy, count=400, gap=0.02, tokens=lambda i: 100 + i % 200):
    """Outcomes that make eight slots fall behind: each takes tokens · 1 ms of the engine."""
    for i in range(count):
        request = Request(f"old {i}", i * gap, 1, forecast(float(tokens(i))))
        policy.arrived(request)
        policy.observe(ended(request, tokens(i)), i * gap + 1.0)
    return policy


def test_patience_follows_the_slack_that_fcfs_would_have_left():
    policy = Boost(BoostConfig(tier=0.0, k=0.0, patience=0.5, cold_slack=20.0), COST, 8)
    assert policy.starvation.seconds == 0.5 * 20.0
    learned(policy)
    # 400 requests of 0.2 s in 8 s: the last waits for about 72 s, whatever its own size.
    assert 65.0 < policy.slack < 75.0
    assert policy.starvation.seconds == 0.5 * policy.slack
    assert Boost(BoostConfig(tier=0.0, k=0.0), COST, 8).starvation is None


def test_the_overdue_go_behind_the_tier_before_all_others_in_order_of_arrival():
    policy = learned(Boost(BoostConfig(tier=0.02, k=0.0, patience=1.0), COST, 8))
    express = Request("express", 900.0, 1, forecast(10.0))
    short = Request("short", 900.0, 1, forecast(150.0))
    old, older = (Request(str(at), at, 1, forecast(900.0)) for at in (11.0, 10.0))
    for request in (express, short, old, older):
        policy.arrived(request)
    assert order(policy, [old, older, short, express]) == ["express", "short", "11.0", "10.0"]
    for request in (old, older):
        policy.starved(request)
    assert order(policy, [old, older, short, express]) == ["express", "10.0", "11.0", "short"]
    policy.observe(ended(older, 900), 950.0)
    again = Request("10.0", 1000.0, 1, forecast(900.0))
    policy.arrived(again)
    assert policy.key(again)[0] == 2.0, "who has ended is forgotten with its id"


@pytest.mark.parametrize("brevity", [0.0, 1.0, 2.0])
def test_brevity_weighs_a_short_answer_against_a_long_prompt(brevity):
    """Work of 0.1 + 0.001·L and 0.001·L seconds: the answers break even at a ratio of lengths."""
    policy = Boost(BoostConfig(tier=0.0, k=0.0, brevity=brevity), COST, 8)
    prompt = Request("prompt", 0.0, 1000, forecast(100.0, spread=0.0))
    even = 100.0 * 2.0 ** (1.0 / (1.0 + brevity))
    for tokens, first in ((even * 0.98, "answer"), (even * 1.02, "prompt")):
        answer = Request("answer", 0.0, 0, forecast(tokens, spread=0.0))
        assert order(policy, [prompt, answer])[0] == first


def test_one_without_forecast_stands_in_the_middle():
    policy = learned(Boost(BoostConfig(tier=0.0, k=0.0), COST, 8))
    unknown = [Request(name, 0.0, 1) for name in ("u", "v")]
    short, long = (Request(str(n), 0.0, 1, forecast(n)) for n in (100.0, 299.0))
    assert order(policy, [long, *unknown, short]) == ["100.0", "u", "v", "299.0"]


def test_a_forecast_that_comes_late_counts_from_then_on():
    policy = Boost(BoostConfig(tier=0.0, k=4.0), COST, 8)
    for i in range(200):
        request = Request(str(i), float(i), 1)
        policy.arrived(request)
        request.forecast = forecast(100.0 + i)
        policy.key(request)
        policy.observe(ended(request, 100), i + 1.0)
    assert policy._experience.bin_of(1.0, 1.0) is not None


def test_nothing_is_kept_of_who_has_ended():
    policy = learned(Boost(BoostConfig.of("fast"), COST, 8))
    assert not policy._known
    assert not policy._overdue


INT32, EPOCH = 2**31, 1_700_000_000.0


@pytest.mark.parametrize("config", [BoostConfig(0.1, 4.0), BoostConfig(0.1, None)])
def test_priority_orders_as_the_key_does(config):
    policy = learned(Boost(config, COST, 8))
    requests = [
        Request(r.id, EPOCH + r.arrival, r.prompt_tokens, r.forecast) for r in population(300)
    ]
    for request in requests:
        policy.arrived(request)
    ints = {r.id: policy.priority(r, EPOCH) for r in requests}
    assert all(-INT32 <= value < INT32 for value in ints.values())
    express = {r.id for r in requests if policy.key(r)[0] == 0.0}
    assert 0 < len(express) < len(requests)
    assert {name for name, value in ints.items() if value < -EXPRESS // 2} == express
    for request in requests:
        if request.id not in express:
            boosted = policy.key(request)[1] - EPOCH
            assert ints[request.id] == pytest.approx(1000.0 * boosted, abs=0.51)


def test_priority_has_a_bound_although_shortest_first_has_none():
    policy = learned(Boost(BoostConfig.of("fast"), COST, 8))
    late = Request("late", EPOCH + 1.0, 1, forecast(200.0))
    early = Request("early", EPOCH, 1, forecast(5000.0))
    unknown = Request("unknown", EPOCH + 0.5, 1)
    assert policy.key(late) < policy.key(early)
    found = sorted([late, unknown, early], key=lambda request: policy.priority(request, EPOCH))
    assert [request.id for request in found] == ["early", "unknown", "late"]
    assert abs(policy.priority(late)) < 2**53, "Unix milliseconds fit vLLM's int64 as they are"


def test_a_tier_does_not_swell_when_answers_and_forecasts_become_shorter():
    """Labels follow the forecasts down, and the long memory of them does not at once."""
    policy = Boost(BoostConfig(tier=0.1, k=None), COST, 8)
    rng, shares = random.Random(4), []
    for scale in (1.0, 0.4):
        held = total = 0.0
        for i in range(3000):
            tokens = scale * rng.lognormvariate(5.0, 1.0)
            request = Request(f"{scale} {i}", 0.01 * i, 1, forecast(tokens))
            policy.arrived(request)
            if i >= 400:
                work = expected_work(request)
                held += work * (policy.key(request)[0] == 0.0)
                total += work
            policy.observe(ended(request, max(1, int(tokens))), 0.01 * i + 1.0)
        shares.append(held / total)
    assert 0.07 < shares[0] < 0.13
    assert 0.07 < shares[1] < 0.15, "without the guard it holds .27 here"
