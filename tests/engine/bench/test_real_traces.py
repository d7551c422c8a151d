"""The study of real traces, on a trace made for it."""

from dataclasses import replace

import numpy as np
import pytest

from engine.bench.real_traces import FORECASTS, TracesConfig, study
from engine.engine_profiles import named
from engine.traces import Trace
from engine.workload import Lengths

ENGINE = replace(named("toy-32"), name="tiny", max_num_seqs=4)
NOISE, STALE, FLAT = FORECASTS


def trace(count=300, name="made", seed=1):
    rng = np.random.default_rng(seed)
    lengths = Lengths(
        rng.integers(5, 200, count).astype(np.int64),
        np.maximum(1, rng.lognormal(4.0, 1.0, count)).astype(np.int64),
    )
    return Trace(name, np.cumsum(rng.exponential(1.0, count)), lengths)


def test_a_row_for_each_cell_and_policy_in_order():
    config = TracesConfig(("boost-safe", "sjf"), (NOISE, FLAT), loads=(0.9, 1.1), requests=120)
    seen = []
    rows = study(config, [trace()], [ENGINE], range(2), 1, seen.append)
    assert [(row.load, row.forecasts, row.policy) for row in rows] == [
        (load, said, policy)
        for load in (0.9, 1.1)
        for said in ("noise", "flat")
        for policy in ("boost-safe", "sjf")
    ]
    assert seen[-1] == 8
    assert not any(row.kv_bound for row in rows)
    sjf = [row for row in rows if row.policy == "sjf"]
    assert all(row.mean_e2el.median < 0.97 for row in sjf), "there was something to gain"
    for row in rows:
        assert row.worst == max(
            value.median for value in (row.mean_e2el, row.p90_e2el, row.p99_e2el)
        )


def test_flat_forecasts_are_exactly_fcfs():
    config = TracesConfig(forecasts=(FLAT,), loads=(1.1,), requests=150)
    (row,) = study(config, [trace()], [ENGINE], range(2))
    assert (row.mean_e2el.p10, row.mean_e2el.p90, row.worst) == (1.0, 1.0, 1.0)


def test_stale_forecasts_do_not_cost_the_tail():
    config = TracesConfig(forecasts=(STALE,), loads=(1.1,), requests=300)
    (row,) = study(config, [trace(600)], [ENGINE], range(3))
    assert row.p99_e2el.median < 1.05


def test_little_memory_is_told():
    small = replace(ENGINE, num_blocks=64)
    (row,) = study(
        TracesConfig(forecasts=(NOISE,), loads=(1.0,), requests=100), [trace()], [small], [0]
    )
    assert row.kv_bound


def test_a_coarse_clock_is_spread_over_its_tick():
    """All of three seconds arrive at once; spread out, fcfs has less of a queue to show."""
    coarse = trace(name="coarse")
    coarse = coarse.with_arrivals(np.floor(coarse.arrivals / 30.0) * 30.0)
    rows = [
        study(
            TracesConfig(forecasts=(FLAT,), loads=(0.8,), requests=300, ticks=ticks),
            [coarse], [ENGINE], [0],
        )[0]
        for ticks in ((), (("coarse", 30.0),))
    ]  # fmt: skip
    assert rows[1].fcfs_p99.median < rows[0].fcfs_p99.median


@pytest.mark.parametrize(
    ("field", "value"),
    [("policies", ()), ("forecasts", ()), ("loads", ()), ("loads", (0.0,)), ("requests", 1)],
)
def test_config_names_the_field(field, value):
    with pytest.raises(ValueError, match=field):
        TracesConfig(**{field: value})


def test_needs_something_to_run():
    with pytest.raises(ValueError, match="traces, engines and seeds"):
        study(TracesConfig(), [], [ENGINE], [0])
