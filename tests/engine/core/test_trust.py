"""How much say a forecast has in the order, by its trust: all of it, less, none."""

from __future__ import annotations

import copy
import functools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import Boost, BoostConfig, Fcfs, make
from engine.core.policies.boost import EXPRESS
from engine.core.request import Request, Status
from engine.simulator import simulate
from ranker.types import LEVELS, FinishReason, Forecast

COST = CostModel(base=0.0, decode=0.001, prefill=0.0001)
CONFIGS = [
    BoostConfig.of("safe"),
    BoostConfig.of("balanced"),
    BoostConfig.of("fast"),
    BoostConfig(tier=0.12, k=4.0),
]
trusts = st.floats(0.0, 1.0)


def forecast(tokens: float, trust: float = 1.0, spread: float = 1.0) -> Forecast:
    quantiles = tuple(tokens * (1.0 + spread * (p - 0.5)) for p in LEVELS)
    return Forecast(tokens, quantiles, "ranker", "1", trust=trust)


def request(name: str, arrival: float, tokens: float, trust: float = 1.0) -> Request:
    return Request(name, arrival, 1 + int(tokens) % 50, forecast(tokens, trust))


def learned(config: BoostConfig, count: int = 120) -> Boost:
    """A policy with a past of forecasts that came true."""
    return copy.deepcopy(_learned(config, count))


@functools.cache
def _learned(config: BoostConfig, count: int) -> Boost:
    policy, rng = Boost(config, COST, 8), random.Random(3)
    for i in range(count):
        past = request(f"old {i}", 0.02 * i, rng.lognormvariate(5.0, 1.0))
        policy.arrived(past)
        past.output_tokens, past.finish_reason = int(past.forecast.mean), FinishReason.STOP
        policy.observe(past, 0.02 * i + 1.0)
    return policy


def traffic(trust: float | None, seed: int = 7, count: int = 150) -> list[Request]:
    rng = random.Random(seed)
    made = []
    for i in range(count):
        tokens = rng.lognormvariate(4.0, 1.0)
        said = None if trust is None else forecast(tokens, trust)
        made.append(Request(str(i), 0.01 * i, rng.randint(1, 80), said, max(1, int(tokens))))
    return made


@pytest.mark.parametrize("config", CONFIGS)
@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.floats(1.0, 5000.0), min_size=2, max_size=30),
    past=st.sampled_from([0, 120]),
    overdue=st.sets(st.integers(0, 29)),
)
def test_without_trust_the_order_is_that_of_arrival_whatever_was_before(
    config: BoostConfig, lengths: list[float], past: int, overdue: set[int]
) -> None:
    policy = learned(config, past)
    requests = [request(str(i), 100.0 + i, tokens, 0.0) for i, tokens in enumerate(lengths)]
    keys = []
    for each in requests:
        policy.arrived(each)
        keys.append(policy.key(each))
    assert keys == sorted(keys)
    assert all(key[0] > 0.0 for key in keys), "nobody is in the tier"
    priorities = [policy.priority(each) for each in requests]
    assert priorities == [round(1000.0 * each.arrival) for each in requests]
    # The longest wait is over first for those who came first.
    late = [i for i in sorted(overdue) if i < len(requests)][:1] and range(min(overdue) + 1)
    for i in [i for i in late if i < len(requests)]:
        policy.starved(requests[i])
    again = [policy.key(each) for each in requests]
    assert again == sorted(again)


@pytest.mark.parametrize(
    "name", ["ranked", "ltr", "gittins", "tie", "srpt_predicted", "boost-safe", "boost-fast"]
)
def test_without_trust_requests_end_as_without_forecasts(name: str) -> None:
    config = SchedulerConfig(8, 256, 16, 4096)
    found, unscored, scored = (
        simulate(traffic(trust), config, make(name, cost=COST, batch=8), COST).timings
        for trust in (0.0, None, 1.0)
    )
    assert found.ids == unscored.ids
    assert list(found.finished) == pytest.approx(list(unscored.finished))
    assert scored.ids != found.ids, "with trust it is another order"
    if name != "ltr":  # whose rule against starvation promotes even then
        fcfs = simulate(traffic(None), config, Fcfs(), COST).timings
        assert found.ids == fcfs.ids
        assert list(found.finished) == pytest.approx(list(fcfs.finished))


def test_an_order_that_cannot_weigh_a_forecast_takes_it_from_half_the_trust_on() -> None:
    policy = make("ranked")
    low, high = (request(str(t), 9.0, 80.0, t) for t in (0.49, 0.5))
    assert policy.key(low) == policy.key(Request("none", 9.0, 1))
    assert policy.key(high) == (80.0, 9.0)


@pytest.mark.parametrize("config", CONFIGS)
@settings(max_examples=40, deadline=None)
@given(tokens=st.floats(1.0, 5000.0), more=trusts, less=trusts)
def test_tier_boost_and_patience_shrink_as_trust_falls(
    config: BoostConfig, tokens: float, more: float, less: float
) -> None:
    less, more = sorted((less, more))
    policy = learned(config)
    high, low = request("high", 9.0, tokens, more), request("low", 9.0, tokens, less)
    for each in (high, low):
        policy.arrived(each)
    assert policy.boost(low) <= policy.boost(high) + 1e-9
    assert not (policy.key(low)[0] == 0.0 and policy.key(high)[0] > 0.0)
    if policy.starvation is not None and less > 0.0:
        given_less, given_more = policy.patience(low), policy.patience(high)
        assert given_less is not None
        assert given_more is not None
        assert given_less.seconds <= given_more.seconds  # type: ignore[operator]
    if policy.key(low)[0] == policy.key(high)[0] == 2.0 and config.k == 0.0:
        middle = policy._population.middle
        low_label, high_label = policy.key(low)[1], policy.key(high)[1]
        assert abs(low_label - middle) <= abs(high_label - middle) * (1.0 + 1e-9)


def test_full_trust_is_what_a_forecast_has_when_nothing_is_said_of_it() -> None:
    for config in CONFIGS:
        one, other = learned(config), learned(config)
        silent = Request("x", 9.0, 10, Forecast(80.0, tuple(160.0 * p for p in LEVELS), "r", "1"))
        said = replace(silent, forecast=replace(silent.forecast, trust=1.0))  # type: ignore[type-var]
        assert one.key(silent) == other.key(said)
        assert one.patience(silent) == one.starvation


@pytest.mark.parametrize("config", CONFIGS)
def test_one_untrusted_tenant_teaches_nothing_of_the_others(config: BoostConfig) -> None:
    policy = learned(config)
    probe = request("probe", 50.0, 120.0)
    policy.arrived(probe)
    before = policy.key(probe)
    for i in range(500):
        wrong = request(f"wrong {i}", 10.0 + 0.001 * i, 1.0 + i % 700, 0.0)
        policy.arrived(wrong)
        policy.key(wrong)
        wrong.output_tokens, wrong.finish_reason = 1, FinishReason.STOP
        policy.observe(wrong, 20.0)
    assert len(policy._experience) == 120
    gamma_moved = config.k is not None and config.k > 0.0  # its work is measured as everybody's
    assert gamma_moved or policy.key(probe) == before


def test_a_backlog_of_shrunk_trust_keeps_the_priorities_of_vllm_in_range() -> None:
    policy = learned(BoostConfig(tier=0.12, k=4.0))
    trusted, half, none = (request(name, 9.0, 30.0, t) for name, t in
                           (("a", 1.0), ("b", 0.3), ("c", 0.0)))  # fmt: skip
    values = [policy.priority(each) for each in (trusted, half, none)]
    assert values == sorted(values)
    assert values[0] < -EXPRESS // 2
    assert values[2] == 9000


# -- mlfq for those without a forecast to go by --------------------------------------------------


def mixed(count: int = 200, seed: int = 11) -> list[Request]:
    """Every other request has a forecast that nobody trusts."""
    rng = random.Random(seed)
    made = []
    for i in range(count):
        tokens = rng.lognormvariate(4.0, 1.2)
        said = forecast(tokens if i % 2 else rng.lognormvariate(4.0, 1.2), 1.0 if i % 2 else 0.0)
        made.append(Request(str(i), 0.02 * i, rng.randint(1, 40), said, max(1, int(tokens))))
    return made


@pytest.mark.parametrize("k", [None, 0.0, 4.0])
def test_mlfq_orders_the_untrusted_by_level_and_by_arrival_within(k: float | None) -> None:
    policy = Boost(BoostConfig(tier=0.1, k=k, mlfq=True), COST, 8)
    first, second = request("a", 1.0, 50.0, 0.0), request("b", 2.0, 50.0, 0.0)
    served = request("c", 0.0, 50.0, 0.0)
    for each in (first, second, served):
        policy.arrived(each)
    served.status, served.output_tokens, served.computed_tokens = Status.RUNNING, 400, 401
    places = [(policy.key(each), i) for i, each in enumerate((first, second, served))]
    if k is None:
        assert sorted(places)[0] == places[2], "behind a tier alone the order is of arrival"
    else:
        assert sorted(places) == places, "who had much service goes last, though it came first"
    assert policy.rekey_after(served) is not None
    policy.observe(served, 3.0)
    assert served.id not in policy._levels._reached  # type: ignore[union-attr]


def test_mlfq_takes_no_slot_from_one_that_runs_by_its_forecast() -> None:
    policy = Boost(BoostConfig(tier=0.1, k=0.0, mlfq=True), COST, 8)
    trusted = request("t", 0.0, 900.0)
    policy.arrived(trusted)
    waits = policy.key(trusted)
    trusted.status = Status.RUNNING
    assert waits[0] >= 0.0 > policy.key(trusted)[0]
    assert policy.rekey_after(trusted) is None


def test_mlfq_serves_short_ones_sooner_than_arrival_does_and_loses_nobody() -> None:
    config = SchedulerConfig(4, 256, 16, 4096)
    done = {}
    for mlfq in (False, True):
        policy = Boost(BoostConfig(tier=0.1, k=0.0, patience=1.0, mlfq=mlfq), COST, 4)
        result = simulate(mixed(), config, policy, COST)
        done[mlfq] = dict(zip(result.timings.ids, result.timings.finished, strict=True))
        assert (result.preemptions > 0) == mlfq
    requests = mixed()
    assert done[True].keys() == {each.id for each in requests}
    short = [r for r in requests if r.forecast.trust == 0.0 and r.true_tokens <= 20]  # type: ignore[union-attr,operator]
    mean = {m: sum(done[m][r.id] - r.arrival for r in short) / len(short) for m in done}
    assert mean[True] < mean[False]
