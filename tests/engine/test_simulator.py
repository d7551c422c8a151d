"""The simulator against queueing theory, against itself without skipping, and on its accounts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import make
from engine.core.request import Request
from engine.simulator import simulate
from ranker.types import LEVELS, Forecast

# One slot, and a token costs a thousandth of a second: an M/G/1 queue with service L/1000.
ONE = SchedulerConfig(1, 4096, 16, 4096)
TOKEN = CostModel(base=0.001, decode=0.0, prefill=0.0)
TWO_SIZES = (100, 1900)


def poisson(count, utilisation, seed):
    rng = np.random.default_rng(seed)
    lengths = rng.choice(TWO_SIZES, count, p=[0.8, 0.2])
    mean = (0.8 * TWO_SIZES[0] + 0.2 * TWO_SIZES[1]) / 1000
    arrivals = np.cumsum(rng.exponential(mean / utilisation, count))
    return [
        Request(str(i), float(arrivals[i]), 1, true_tokens=int(lengths[i])) for i in range(count)
    ]


def test_fcfs_mean_wait_is_pollaczek_khinchine():
    rho = 0.7
    waits = []
    for seed in range(3):
        result = simulate(poisson(12_000, rho, seed), ONE, make("fcfs"), TOKEN)
        waits.append(np.mean([t.e2el - t.output_tokens / 1000 for t in result.timings]))
    mean = (0.8 * 0.1 + 0.2 * 1.9) / 1
    second = 0.8 * 0.1**2 + 0.2 * 1.9**2
    expected = rho / mean * second / (2 * (1 - rho))
    assert np.mean(waits) == pytest.approx(expected, rel=0.08)


def test_sjf_mean_wait_is_the_two_class_priority_formula():
    """Cobham 1954: class 1 waits R/(1 − rho1), class 2 R/((1 − rho1)(1 − rho)), not preemptive."""
    rho = 0.7
    short, long = [], []
    for seed in range(3):
        result = simulate(poisson(12_000, rho, seed), ONE, make("sjf"), TOKEN)
        for timing in result.timings:
            wait = timing.e2el - timing.output_tokens / 1000
            (short if timing.output_tokens == TWO_SIZES[0] else long).append(wait)
    mean = 0.8 * 0.1 + 0.2 * 1.9
    rate = rho / mean
    residual = rate * (0.8 * 0.1**2 + 0.2 * 1.9**2) / 2
    rho_short = rate * 0.8 * 0.1
    assert np.mean(short) == pytest.approx(residual / (1 - rho_short), rel=0.06)
    assert np.mean(long) == pytest.approx(residual / ((1 - rho_short) * (1 - rho)), rel=0.1)


request_lists = st.lists(
    st.tuples(st.floats(0.0, 4.0), st.integers(1, 40), st.integers(1, 40), st.floats(1.0, 50.0)),
    min_size=1,
    max_size=25,
)


def build(rows):
    now, requests = 0.0, []
    for i, (gap, prompt, length, said) in enumerate(rows):
        now += gap
        forecast = Forecast(said, tuple(said * (0.5 + p) for p in LEVELS), "r", "1")
        requests.append(Request(str(i), now, prompt, forecast, true_tokens=length))
    return requests


@settings(max_examples=60, deadline=None)
@given(
    request_lists,
    st.sampled_from(["fcfs", "sjf", "ranked", "boost"]),
    st.integers(1, 4),
    st.integers(0, 20),
    st.integers(20, 60),
    st.sampled_from([0.0, 0.0003]),
)
def test_skipping_ahead_changes_nothing(rows, policy, slots, extra, blocks, context):
    cost = CostModel(base=0.03, decode=0.002, prefill=0.0007, context=context)
    config = SchedulerConfig(slots, slots + extra, 4, blocks)
    runs = [
        simulate(build(rows), config, make(policy, cost=cost, batch=slots), cost, skip=skip)
        for skip in (True, False)
    ]
    fast, slow = runs
    assert [t.request_id for t in fast.timings] == [t.request_id for t in slow.timings]
    for one, other in zip(fast.timings, slow.timings, strict=True):
        assert one.first_token == pytest.approx(other.first_token)
        assert one.finished == pytest.approx(other.finished)
        assert one.output_tokens == other.output_tokens
    assert (fast.steps, fast.preemptions) == (slow.steps, slow.preemptions)
    assert fast.peak_waiting == slow.peak_waiting
    for field in ("duration", "mean_waiting", "utilisation", "slot_usage"):
        assert getattr(fast, field) == pytest.approx(getattr(slow, field)), field


def test_accounts_by_hand():
    """Two at once on one slot; 0.01 s a step; prompts in one step that also gives a token."""
    cost = CostModel(base=0.01, decode=0.0, prefill=0.0)
    requests = [Request("a", 5.0, 3, true_tokens=10), Request("b", 5.0, 3, true_tokens=5)]
    requests.append(Request("c", 6.0, 3, true_tokens=5))
    result = simulate(requests, ONE, make("fcfs"), cost)
    assert [(t.request_id, round(t.ttft, 9), round(t.e2el, 9)) for t in result.timings] == [
        ("a", 0.01, 0.1),
        ("b", 0.11, 0.15),
        ("c", 0.01, 0.05),
    ]
    assert result.steps == 20
    assert result.duration == pytest.approx(1.05)
    assert result.utilisation == pytest.approx(0.2 / 1.05)
    assert result.mean_waiting == pytest.approx(0.1 / 1.05)
    assert (result.peak_waiting, result.slot_usage) == (1, pytest.approx(1.0))


def test_reads_requests_without_changing_them():
    requests = [Request("a", 0.0, 3, true_tokens=10)]
    first = simulate(requests, ONE, make("fcfs"), TOKEN)
    assert simulate(requests, ONE, make("fcfs"), TOKEN) == first
    assert requests[0].output_tokens == 0


def test_refusals_are_counted():
    config = SchedulerConfig(1, 64, 16, 64, max_waiting=2)
    requests = [Request(str(i), 0.0, 3, true_tokens=10) for i in range(5)]
    result = simulate(requests, config, make("fcfs"), TOKEN)
    assert result.refused == ("2", "3", "4")
    assert len(result.timings) == 2


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([], "empty"),
        ([Request("a", 0.0, 3)], "true_tokens"),
        ([Request("a", 0.0, 3, true_tokens=0)], "true_tokens"),
        ([Request("a", 0.0, 3, true_tokens=10**6)], "num_blocks"),
    ],
)
def test_bad_requests_are_named(requests, message):
    with pytest.raises(ValueError, match=message):
        simulate(requests, ONE, make("fcfs"), TOKEN)
