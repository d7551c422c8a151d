"""What an order is worth to a queue, against what it must be by construction."""

from __future__ import annotations

import numpy as np
import pytest

from ranker.types import FinishReason, Forecast
from training.gate import BurstConfig
from training.gate.bursts import efficiency
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


def test_rows_without_work_make_no_burst():
    aborted = [
        Example(f"p{i}", 5, FinishReason.ABORT, "toy", str(i), "validation") for i in range(50)
    ]
    flat = scored(range(50))
    assert efficiency(flat, flat, aborted, BurstConfig(), np.random.default_rng(0)) is None
