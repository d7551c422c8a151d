"""What order is worth: intervals that cover, and seconds that are those of the real engine."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from drift.bootstrap import block_ratios, limits
from drift.efficiency import ReplayConfig, worth
from drift.saved import saved
from engine.core.costs import CostModel
from engine.core.policies import Fcfs, Ranked
from engine.efficiency import from_outcomes
from engine.simulator import simulate


def test_the_bootstrap_of_a_mean_has_its_standard_error():
    rng = np.random.default_rng(1)
    values = rng.normal(3.0, 2.0, 1000)
    drawn = block_ratios(values, np.ones(1000), 2000, rng)
    assert drawn.std() == pytest.approx(2.0 / np.sqrt(1000), rel=0.15)
    low, high = limits(drawn, 0.95)
    assert low < values.mean() < high


def test_blocks_see_dependence_that_single_values_hide():
    rng = np.random.default_rng(2)
    noise = rng.normal(size=4020)
    values = np.convolve(noise, np.ones(10), "valid")[:4000]  # each shares nine with the next
    blocks = block_ratios(values, np.ones(4000), 1000, rng).std()
    single = values.std() / np.sqrt(4000)
    assert blocks > 2.0 * single


@pytest.mark.slow
def test_the_interval_covers_what_fresh_cohorts_say(stream):
    found = [worth(stream(300, 0.36, 200 + seed)) for seed in range(16)]
    values = np.array([w.efficiency.e2el for w in found])
    truth = values.mean()
    assert sum(w.e2el[0] <= truth <= w.e2el[1] for w in found) >= 13
    widths = np.array([w.e2el[1] - w.e2el[0] for w in found])
    assert 0.8 < widths.mean() / (2 * 1.96 * values.std(ddof=1)) < 2.5
    assert all(w.per_token[0] < w.efficiency.per_token < w.per_token[1] for w in found)
    assert all(w.p99_ratio > 1.0 for w in found)  # order by score alone: the tail pays


def test_an_oracle_has_an_interval_at_one(stream):
    rows = [
        dataclasses.replace(o, forecast=dataclasses.replace(o.forecast, score=o.output_tokens))
        for o in stream(300, 0.4, 7)
    ]
    found = worth(rows)
    assert found.efficiency.e2el > 0.97
    assert found.e2el[1] - found.e2el[0] < 0.1


def _served(stream, utilisation):
    """Outcomes of an engine three times as slow as the replay's, and what FCFS would have cost."""
    slow = CostModel(0.06, 0.006, 0.0015)
    config = ReplayConfig()
    outcomes = stream(400, 0.4, 5)
    requests = from_outcomes(outcomes, slow, config.scheduler.max_num_seqs, utilisation)
    real = simulate(requests, config.scheduler, Ranked(), slow)
    ends = {t.request_id: t.finished for t in real.timings}
    fcfs = simulate(requests, config.scheduler, Fcfs(), slow).summary.e2el.mean
    rows = [
        dataclasses.replace(o, arrival=1e9 + r.arrival, finished=1e9 + ends[o.request_id])
        for o, r in zip(outcomes, requests, strict=True)
    ]
    return rows, fcfs - real.summary.e2el.mean


def test_seconds_saved_are_those_of_the_engine_that_served(stream):
    rows, truth = _served(stream, 1.3)
    found = saved(rows, span=1e9)
    assert found.seconds == pytest.approx(truth, rel=0.2)
    assert found.load == pytest.approx(1.3, rel=0.1)
    assert found.low < found.seconds < found.high
    assert found.requests == 400


def test_a_quiet_engine_saves_nothing(stream):
    rows, truth = _served(stream, 0.3)
    found = saved(rows, span=1e9)
    assert truth == pytest.approx(0.0, abs=0.5)
    assert found.seconds == pytest.approx(0.0, abs=0.5)


def test_seconds_are_not_made_up(stream):
    rows = stream(300, 0.4, 5)
    assert saved([dataclasses.replace(o, finished=o.arrival) for o in rows]) is None
    assert saved(rows[:50]) is None
    assert saved(rows, span=20.0) is None
    assert saved([]) is None
