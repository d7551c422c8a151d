import math

import numpy as np
import pytest

from engine import workload
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import Fcfs, make
from engine.efficiency import from_outcomes, sjf_efficiency
from engine.workload import Lengths
from ranker.types import LEVELS, FinishReason, Forecast, Outcome

CONFIG = SchedulerConfig(8, 512, 16, 4096)
COST = CostModel(base=0.03, decode=0.002, prefill=0.0007)


def cohort(tau, count=600, seed=1, utilisation=1.1):
    rng = np.random.default_rng(seed)
    output = np.maximum(1, rng.lognormal(4.5, 1.0, 2 * count)).astype(np.int64)
    lengths = Lengths(np.full(2 * count, 30), output)
    scores = workload.noisy_scores(output, tau, rng)
    known = slice(0, count)
    forecasts = workload.calibrated(scores[count:], scores[known], output[known])
    served = lengths.take(np.arange(count, 2 * count))
    arrivals = workload.renewal(count, served.rate_at(utilisation, COST, 8), 1.0, rng)
    return workload.requests(arrivals, served, forecasts)


def test_rises_from_nothing_to_one_with_tau():
    found = [sjf_efficiency(cohort(tau), CONFIG, COST) for tau in (0.0, 0.3, 0.6, 1.0)]
    e2el = [each.e2el for each in found]
    assert abs(e2el[0]) < 0.15
    assert e2el == sorted(e2el)
    assert e2el[-1] > 0.95
    assert found[-1].per_token > 0.95


def test_fcfs_has_none_and_the_oracle_all():
    requests = cohort(0.5)
    assert sjf_efficiency(requests, CONFIG, COST, Fcfs).e2el == 0.0
    oracle = sjf_efficiency(requests, CONFIG, COST, lambda: make("sjf", cost=COST, batch=8))
    assert (oracle.e2el, oracle.per_token) == (1.0, 1.0)


def test_is_the_ratio_of_the_three_means():
    found = sjf_efficiency(cohort(0.5), CONFIG, COST)
    fcfs, forecast, oracle = (getattr(found, n).e2el.mean for n in ("fcfs", "forecast", "oracle"))
    assert found.e2el == pytest.approx((fcfs - forecast) / (fcfs - oracle))


def test_is_not_a_number_without_a_queue():
    found = sjf_efficiency(cohort(0.5, count=60, utilisation=0.05), CONFIG, COST)
    assert math.isnan(found.e2el)


def outcome(name, arrival, tokens, reason=FinishReason.STOP, prompt=10):
    forecast = Forecast(float(tokens), (float(tokens),) * len(LEVELS), "r", "1")
    return Outcome(name, "m", tokens, reason, arrival, arrival + 500.0, prompt, forecast, "t")


def test_outcomes_become_requests_in_order_of_arrival():
    outcomes = [
        outcome("late", 1e9 + 8.0, 20),
        outcome("early", 1e9, 10),
        outcome("cut", 1e9 + 2.0, 30, FinishReason.LENGTH),
        outcome("gone", 1e9 + 3.0, 30, FinishReason.ABORT),
        outcome("broken", 1e9 + 3.0, 30, FinishReason.ERROR),
        outcome("mute", 1e9 + 4.0, 0),
    ]
    requests = from_outcomes(outcomes, COST, 8)
    assert [(r.id, r.arrival, r.true_tokens) for r in requests] == [
        ("early", 0.0, 10),
        ("cut", 2.0, 30),
        ("late", 8.0, 20),
    ]
    assert requests[0].forecast.score == 10.0
    assert requests[0].tenant == "t"
    busy = from_outcomes(outcomes, COST, 8, utilisation=1.0)
    work = sum(COST.work(10, tokens, 8) for tokens in (10, 20, 30))
    assert [r.arrival for r in busy] == pytest.approx([0.0, work / 4, work])
    assert from_outcomes([], COST, 8) == []
    with pytest.raises(ValueError, match="utilisation"):
        from_outcomes(outcomes, COST, 8, utilisation=0.0)
