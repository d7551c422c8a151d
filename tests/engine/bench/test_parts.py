"""The parts that studies are made of."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from engine import scenarios, workload
from engine.bench import published
from engine.bench.classes import in_classes
from engine.bench.parallel import alone
from engine.bench.service import finished_within, output_within, prompts_within
from engine.bench.shortage import demand
from engine.bench.sustained import crossing, sustained
from engine.timing_table import in_columns
from engine.timings import Timing
from engine.workload import Lengths
from ranker.types import Forecast


def lengths(*pairs):
    table = np.array(pairs, dtype=np.int64)
    return Lengths(table[:, 0], table[:, 1])


def test_the_rate_at_which_a_latency_is_reached():
    assert crossing([1, 2, 4], [10, 20, 60], 30) == (2.5, False)
    assert crossing([1, 2, 4], [10, 20, 60], 100) == (4, True)
    assert crossing([1, 2, 4], [10, 20, 60], 10) == (1, False)


def test_sustained_rates_are_over_those_of_fcfs():
    fcfs, own = [1.0, 3.0, 9.0], [1.0, 1.5, 3.0]
    curves = dict.fromkeys(("per_token", "p99_per_token", "e2el"), (fcfs, own))
    found = sustained("p", [1.0, 2.0, 3.0], 3.0, [curves])
    assert found.at_mean.median == 3.0 / 2.0
    assert found.capped  # at the highest rate it has just reached the level, not passed it
    same = dict.fromkeys(curves, (fcfs, fcfs))
    assert sustained("fcfs", [1.0, 2.0, 3.0], 3.0, [same]).at_p99.median == 1.0


def test_demand_weighs_requests_by_how_long_they_stay():
    # Both hold P + L/2: 150 and 60; the first stays ten times as long.
    assert demand(lengths((100, 100), (55, 10)), 1) == pytest.approx((1500 + 60) / 11, abs=1)
    assert demand(lengths((100, 100)), 8) == 8 * 150


def test_tokens_within_a_window():
    timings = in_columns(
        [Timing("a", 0.0, 1.0, 5.0, 30, 8), Timing("b", 0.0, 9.0, 11.0, 50, 4)],
    )
    assert output_within(timings, 0.0, 20.0) == 8 + 4
    assert output_within(timings, 2.0, 4.0) == 4.0  # half of a's
    assert output_within(timings, 0.0, 10.0) == 8 + 2
    assert prompts_within(timings, 0.0, 9.0) == 30
    assert prompts_within(timings, 9.0, 10.0) == 50
    assert list(finished_within(timings, 5.0, 11.0).ids) == ["a"]


def test_ten_buckets_lose_the_order_within_them():
    forecasts = [Forecast(float(m), (float(m),), "r", "1", (0.5,)) for m in (5, 9, 10, 55, 400)]
    known = lengths(*[(1, length) for length in (1, 2, 3, 4, 100)])
    requests = workload.requests(np.zeros(5), known, forecasts)
    scores = [request.forecast.score for request in in_classes(requests, 10)]
    assert scores == [0.0, 0.0, 1.0, 5.0, 9.0]  # the last bucket is open


def test_forecasts_of_the_traffic_have_the_tau_asked_for():
    rng = np.random.default_rng(3)
    table = rng.lognormal(4.0, 1.0, (600, 2)).astype(int) + 1
    drawn, forecasts = scenarios.served(lengths(*table), 500, 0.5, rng)
    scores = [forecast.score for forecast in forecasts]
    found = kendalltau(scores, drawn.output_tokens).statistic
    assert found == pytest.approx(0.5, abs=0.05)
    with pytest.raises(ValueError, match="80"):
        scenarios.served(lengths((1, 1)), 5, 0.5, rng)


def test_published_gains_are_the_ratios_of_the_printed_numbers():
    first = published.BURST[0]
    assert first.gains["ltr"] == pytest.approx(2.05, abs=0.01)
    assert published.FIRST[0].gains["ltr"] == pytest.approx(6.5, abs=0.05)


def test_alone_is_another_process():
    import os

    assert alone(_pid, None) != os.getpid()


def _pid(_):
    import os

    return os.getpid()
