"""The clocks of the bench: that they time what they say, not how long it takes."""

from functools import partial

import numpy as np
import pytest

from engine.bench.scale import ScaleConfig, azure_like, scale
from engine.bench.speed import SpeedConfig, p99_ratio, speed
from engine.core.policies import make
from engine.traces import Trace
from tests.engine.bench.world import TINY, lengths


def test_as_many_wait_as_were_asked_for():
    config = SpeedConfig(running=8, waiting=(30, 90), steps=40, repeats=3, warmup=10)
    policy = partial(make, "boost", cost=TINY.cost, batch=8)
    done = []
    rows = speed(config, lengths(), TINY.cost, policy, done.append)
    assert [row.waiting for row in rows] == [30, 90]
    assert done == [1, 2, 3, 4, 5, 6]
    for row in rows:
        assert 0.0 < row.schedule_p50.median <= row.schedule_p99.median
        assert row.admitted > 0.0
        assert row.add > 0.0
    assert p99_ratio(rows) == rows[1].schedule_p99.median / rows[0].schedule_p99.median


def test_a_simulation_is_timed_in_a_process_of_its_own():
    found = scale(ScaleConfig(requests=120, policy="fcfs"), TINY)
    assert found.requests == 120
    assert found.output_tokens >= 120
    assert found.seconds > 0.0
    assert found.simulated_seconds > 0.0
    assert found.peak_bytes > 10 * 2**20  # an interpreter at least
    assert found.requests_per_second == 120 / found.cpu_seconds


def test_a_trace_is_simulated_at_the_load_asked_for():
    busy, idle = (
        scale(ScaleConfig(200, load, "fcfs"), TINY, Trace("own", np.arange(200.0), lengths(200)))
        for load in (0.9, 0.3)
    )
    assert idle.simulated_seconds == pytest.approx(3 * busy.simulated_seconds, rel=0.2)
    assert busy.trace == "own"


def test_the_made_up_trace_is_of_the_shape_of_the_real_one():
    made = azure_like(5000, np.random.default_rng(3))
    assert np.mean(made.lengths.prompt_tokens) == pytest.approx(1155, rel=0.1)
    assert np.mean(made.lengths.output_tokens) == pytest.approx(211, rel=0.1)
    gaps = np.diff(made.arrivals)
    assert gaps.std() / gaps.mean() == pytest.approx(1.09, abs=0.1)


def test_mistakes_are_named():
    for field, value in (("running", 0), ("waiting", ()), ("steps", 0), ("repeats", 0)):
        with pytest.raises(ValueError, match=field):
            SpeedConfig(**{field: value})
    with pytest.raises(ValueError, match="requests"):
        ScaleConfig(79)
    with pytest.raises(ValueError, match="load"):
        ScaleConfig(100, load=0.0)
