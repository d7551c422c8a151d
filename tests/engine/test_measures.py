"""A run as numbers by name."""

import math

import pytest

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.lanes import Slo
from engine.core.policies import Fcfs
from engine.core.request import Request
from engine.measures import measure
from engine.simulator import simulate

COST = CostModel(base=1.0, decode=0.0, prefill=0.0)


def run():
    """One slot; steps of a second; answers of 2 and 4 tokens that come together."""
    requests = [Request("a", 0.0, 10, None, 2), Request("b", 0.0, 10, None, 4)]
    return simulate(requests, SchedulerConfig(1, 64, 16, 64), Fcfs(), COST)


def test_numbers_by_hand():
    found = measure(run(), Slo(ttft=2.0))
    assert found["mean_ttft"] == (1.0 + 3.0) / 2
    assert found["mean_e2el"] == (2.0 + 6.0) / 2
    assert found["mean_per_token"] == (2.0 / 2 + 6.0 / 4) / 2
    assert found["median_itl"] == pytest.approx(1.0, rel=0.01)  # from a histogram
    assert found["mean_max_waiting"] == (1.0 + 3.0) / 2
    assert found["output_throughput"] == 6 / 6.0
    assert (found["goodput"], found["attainment"]) == (1 / 6.0, 0.5)
    assert found["peak_waiting"] == 1
    assert found["mean_waiting"] == pytest.approx(2.0 / 6.0)
    assert found["preemptions"] == found["recomputed_tokens"] == found["swapped_tokens"] == 0


def test_without_an_objective_there_is_no_goodput():
    assert math.isnan(measure(run())["goodput"])
