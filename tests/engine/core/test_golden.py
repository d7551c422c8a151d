"""Golden traces: who starts and ends in which order, per policy. A change here is a change of
behaviour."""

import json
from pathlib import Path

import pytest

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import NAMES, make
from engine.core.request import Request
from engine.simulator import simulate
from ranker.types import LEVELS, Forecast

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
COST = CostModel(base=0.03, decode=0.002, prefill=0.0007)


def trace():
    """Twelve requests; every third is short, forecasts are right about all but two."""
    said = [300, 260, 8, 310, 240, 15, 280, 12, 20, 330, 270, 9]
    true = [310, 240, 10, 300, 250, 12, 30, 14, 290, 340, 260, 8]
    return [
        Request(
            id=chr(ord("a") + i),
            arrival=0.25 * i,
            prompt_tokens=20 + 5 * i,
            forecast=Forecast(
                float(said[i]), tuple(said[i] * (0.6 + 0.8 * p) for p in LEVELS), "golden", "1"
            ),
            true_tokens=true[i],
            priority=2 - i % 3,
        )
        for i in range(12)
    ]


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_trace(name):
    config = SchedulerConfig(2, 64, 16, 36)
    result = simulate(trace(), config, make(name, cost=COST, batch=2), COST)
    expected = GOLDEN[name]
    assert order(result, "first_token") == expected["first_tokens"]
    assert order(result, "finished") == expected["finished"]
    assert result.summary.e2el.mean == pytest.approx(expected["mean_e2el"], rel=1e-9)
    assert result.preemptions == expected["preemptions"]


def order(result, event):
    ordered = sorted(result.timings, key=lambda timing: getattr(timing, event))
    return "".join(timing.request_id for timing in ordered)


def test_every_policy_has_a_trace():
    assert {name.partition(":")[0].partition("-")[0] for name in GOLDEN} == set(NAMES)
