import numpy as np
import pytest
from scipy.stats import kendalltau

from engine.comparison import Arrivals, Scenario, Spread, compare, draw
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import make
from engine.workload import Lengths

COST = CostModel(base=0.03, decode=0.002, prefill=0.001)
CONFIG = SchedulerConfig(8, 512, 16, 4096)


def lengths(count=600):
    rng = np.random.default_rng(4)
    output = np.clip(rng.lognormal(4.5, 1.2, count), 1, 2000).astype(np.int64)
    return Lengths(rng.integers(5, 80, count), output)


@pytest.mark.parametrize("arrivals", [a for a in Arrivals if a is not Arrivals.TRACE])
def test_draws_the_traffic_asked_for_and_the_same_for_the_same_seed(arrivals):
    scenario = Scenario(arrivals, requests=400, tau=0.5, utilisation=0.8)
    one, again, other = (draw(scenario, lengths(), COST, 8, seed) for seed in (1, 1, 2))
    assert [r.arrival for r in one] == [r.arrival for r in again]
    assert [r.arrival for r in one] != [r.arrival for r in other]
    scores = [r.forecast.score for r in one]
    assert kendalltau(scores, [r.true_tokens for r in one]).statistic == pytest.approx(0.5, abs=0.1)
    span = one[-1].arrival - one[0].arrival
    if arrivals is Arrivals.BURST:
        assert span <= 1.0
    if arrivals is Arrivals.POISSON:
        work = sum(COST.work(r.prompt_tokens, r.true_tokens, 8) for r in one)
        assert work / span == pytest.approx(0.8, rel=0.15)


def test_boost_wins_the_mean_and_holds_the_tail_of_a_burst():
    scenario = Scenario(Arrivals.BURST, requests=64, tau=0.5)
    makers = {
        name: lambda name=name: make(
            name.split("-")[0], cost=COST, batch=8, setting=name.split("-")[1]
        )
        for name in ("boost-fast", "boost-safe")
    }
    done = []
    fcfs, fast, safe = compare(scenario, lengths(), CONFIG, COST, makers, range(6), done.append)
    assert done == list(range(1, 19))
    assert (fcfs.policy, fcfs.per_token_gain) == ("fcfs", Spread(1.0, 1.0, 1.0))
    assert fast.per_token_gain.median > safe.per_token_gain.median > 1.0
    assert fast.mean_e2el.median < 0.95
    assert safe.p99_e2el.p90 < 1.05
    assert 48 <= fast.peak_waiting.median <= 56  # 64 arrived, 8 run, a few were done by then


def test_flat_forecasts_leave_fcfs_as_it_is():
    """All quantiles equal by construction: whatever the setting, every ratio is exactly one."""
    from dataclasses import replace

    from engine.simulator import simulate
    from ranker.types import LEVELS, Forecast

    flat = Forecast(0.0, tuple(100.0 * (i + 1) for i in range(len(LEVELS))), "flat", "1")
    requests = [
        replace(request, forecast=flat)
        for request in draw(Scenario(requests=300), lengths(), COST, 8, 1)
    ]
    base = simulate(requests, CONFIG, make("fcfs"), COST)
    for setting in ("safe", "fast"):
        policy = make("boost", cost=COST, batch=8, setting=setting)
        found = simulate(requests, CONFIG, policy, COST)
        # Patience that runs out splits a stretch of steps: sums of seconds round differently.
        assert found.timings.ids == base.timings.ids
        assert found.timings.finished == pytest.approx(base.timings.finished, rel=1e-12)


def test_spread_against_numpy():
    values = list(np.random.default_rng(1).normal(size=30))
    found = Spread.of(values)
    assert (found.p10, found.median, found.p90) == pytest.approx(
        np.percentile(values, [10, 50, 90])
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("requests", 1),
        ("utilisation", 0.0),
        ("spread", -1.0),
        ("period", 0.0),
        ("swing", 2.0),
        ("tau", -0.1),
    ],
)
def test_scenario_names_the_field(field, value):
    with pytest.raises(ValueError, match=field):
        Scenario(**{field: value})


def test_needs_lengths_and_seeds():
    with pytest.raises(ValueError, match="80"):
        draw(Scenario(), lengths(50), COST, 8, 1)
    with pytest.raises(ValueError, match="seeds"):
        compare(Scenario(), lengths(), CONFIG, COST, {}, [])
