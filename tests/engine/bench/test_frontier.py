"""The study of bursts: what it compares, and that it compares like with like."""

import math
from dataclasses import replace

import numpy as np
import pytest

from engine.bench.frontier import FrontierConfig, point, study, sweep
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import make
from engine.core.request import Request
from engine.engine_profiles import named
from engine.simulator import simulate
from engine.workload import Lengths
from ranker.types import LEVELS, Forecast

COST = CostModel(base=0.03, decode=0.0003, prefill=0.0002)
ENGINE = replace(
    named("toy-32"), name="tiny", cost=COST, max_num_seqs=4, max_num_batched_tokens=512
)


def lengths(count=120, seed=3):
    rng = np.random.default_rng(seed)
    return Lengths(
        rng.integers(5, 50, count).astype(np.int64),
        np.maximum(1, rng.lognormal(3.5, 1.0, count)).astype(np.int64),
    )


def runs(*policies):
    """A giant, then a crowd of dwarfs of 1 and 20 tokens, on one slot."""
    requests = [Request("giant", 0.0, 1, true_tokens=400)]
    requests += [Request(f"one {i}", 0.1 + i, 1, true_tokens=1) for i in range(3)]
    requests += [Request(f"twenty {i}", 0.2 + i, 1, true_tokens=20) for i in range(3)]
    requests += [Request("another", 0.05, 1, true_tokens=300)]
    config = SchedulerConfig(1, 64, 16, 100)
    return [
        simulate(requests, config, make(policy, cost=COST), COST).timings for policy in policies
    ]


def test_a_point_again_from_its_definition():
    fcfs, sjf = runs("fcfs", "sjf")
    found = point(sjf, fcfs, brief=10)

    def mean(timings, keep=lambda t: True):
        return np.mean([t.per_token for t in timings if keep(t)])

    def long(timing):
        return timing.output_tokens >= 10

    assert found.gain == pytest.approx(mean(fcfs) / mean(sjf))
    assert found.gain_without_brief == pytest.approx(mean(fcfs, long) / mean(sjf, long))
    saved = {t.request_id: t.per_token for t in fcfs}
    for timing in sjf:
        saved[timing.request_id] -= timing.per_token
    brief = sum(value for name, value in saved.items() if name.startswith("one"))
    assert found.brief_share == pytest.approx(brief / sum(saved.values()))
    assert found.p90_e2el == pytest.approx(
        np.percentile([t.e2el for t in sjf], 90) / np.percentile([t.e2el for t in fcfs], 90)
    )
    assert found.max_ttft == pytest.approx(max(t.ttft for t in sjf) / max(t.ttft for t in fcfs))


def test_fcfs_against_itself_gains_nothing():
    fcfs, again = runs("fcfs", "fcfs")
    found = point(again, fcfs, brief=10)
    assert (found.gain, found.mean_e2el, found.p99_e2el, found.p99_ttft) == (1.0, 1.0, 1.0, 1.0)
    assert math.isnan(found.brief_share)


def test_rows_go_by_engine_then_policy_and_are_the_same_again():
    config = FrontierConfig(("sjf", "boost-fast"), cycles=2, period=20.0)
    engines = [ENGINE, replace(ENGINE, max_num_seqs=8)]
    seen = []
    rows = study(config, lengths(), engines, range(2), 1, seen.append)
    assert [(row.slots, row.policy) for row in rows] == [
        (4, "sjf"), (4, "boost-fast"), (8, "sjf"), (8, "boost-fast"),
    ]  # fmt: skip
    assert seen == [1, 2, 3, 4]
    assert study(config, lengths(), engines, range(2)) == rows
    sjf = rows[0]
    assert sjf.mean_e2el.median < 1.0 < sjf.gain.median
    assert sjf.gain.p10 <= sjf.gain.median <= sjf.gain.p90


def test_the_warm_up_is_not_counted():
    whole = FrontierConfig(("sjf",), cycles=2, warmup=0, period=20.0)
    (row,) = study(whole, lengths(), [ENGINE], [0])
    (late,) = study(replace(whole, warmup=1), lengths(), [ENGINE], [0])
    assert 0.3 < late.requests.median / row.requests.median < 0.7


def test_a_ranker_that_knows_nothing_leaves_the_order_of_arrival():
    flat = Forecast(0.0, tuple(100.0 * p for p in LEVELS), "flat", "1")
    config = FrontierConfig(("boost-safe", "boost-fast"), cycles=2, period=20.0)
    for row in study(config, lengths(), [ENGINE], [0], known=[flat] * 120):
        assert row.gain.median == pytest.approx(1.0, abs=1e-9)
        assert row.p99_e2el.median == pytest.approx(1.0, abs=1e-9)


def test_every_policy_of_the_sweep_can_be_built():
    for family in sweep().values():
        assert family
        for name in family:
            make(name, cost=COST, batch=4)


@pytest.mark.parametrize(
    ("field", "value"),
    [("warmup", -1), ("cycles", 1), ("policies", ()), ("swing", 2.0), ("utilisation", 0.0)],
)
def test_config_names_the_field(field, value):
    with pytest.raises(ValueError, match=field):
        FrontierConfig(**{field: value})


def test_needs_seeds_and_engines():
    for engines, seeds in (([], [0]), ([ENGINE], [])):
        with pytest.raises(ValueError, match="seeds and engines"):
            study(FrontierConfig(), lengths(), engines, seeds)
