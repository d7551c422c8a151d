"""What an order is worth to a queue, against what it must be by construction."""

from __future__ import annotations

import numpy as np
import pytest

from drift.efficiency import efficiency as monitored
from engine.arrivals import renewal
from engine.efficiency import sjf_efficiency
from ranker.types import FinishReason, Forecast, Outcome
from training.gate import BurstConfig
from training.gate.bursts import efficiency, replay
from training.sources import Example


def burst_examples(n=200):
    """A twentieth was cut off, another aborted."""
    rng = np.random.default_rng(2)
    reasons = {1: FinishReason.LENGTH, 2: FinishReason.ABORT}
    tokens = rng.lognormal(4, 1, n).astype(int) + 1
    return [
        Example(f"p{i}", int(t), reasons.get(i % 20, FinishReason.STOP), "toy", str(i), "test", 5)
        for i, t in enumerate(tokens)
    ]


def scored(scores):
    return [Forecast(float(s), (1.0,), "r", "1", (0.5,)) for s in scores]


def test_true_lengths_are_worth_all_and_chance_nothing():
    examples = burst_examples()
    truth = scored([e.output_tokens for e in examples])
    chance = scored(np.random.default_rng(3).permutation(len(examples)))
    config = BurstConfig(bursts=6, requests=100)
    found = efficiency(chance, truth, examples, config, np.random.default_rng(0))
    assert found.challenger == pytest.approx(1.0, abs=0.05)
    assert abs(found.champion) < 0.4
    assert found.low < found.value < found.high
    assert found.low > 0.3
    same = efficiency(truth, truth, examples, config, np.random.default_rng(0))
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)


def test_the_gate_and_the_drift_monitor_replay_on_the_same_engine():
    rng = np.random.default_rng(5)
    examples = [e for e in burst_examples() if e.finish_reason is not FinishReason.ABORT]
    rows = np.arange(len(examples))
    forecasts = scored([e.output_tokens * rng.lognormal(0, 1) for e in examples])
    arrivals = renewal(len(rows), 1.0, 1.0, rng)
    config = BurstConfig()
    requests = replay(forecasts, examples, rows, arrivals, config)
    outcomes = [
        Outcome(e.id, e.model, e.output_tokens, e.finish_reason, at, at, e.prompt_tokens, f)
        for e, at, f in zip(examples, arrivals.tolist(), forecasts, strict=True)
    ]
    told = sjf_efficiency(requests, config.scheduler, config.cost)
    assert 0.3 < told.e2el < 1.0
    assert told.e2el == monitored(outcomes).e2el


def test_rows_without_work_make_no_burst():
    aborted = [
        Example(f"p{i}", 5, FinishReason.ABORT, "toy", str(i), "validation") for i in range(50)
    ]
    flat = scored(range(50))
    assert efficiency(flat, flat, aborted, BurstConfig(), np.random.default_rng(0)) is None
