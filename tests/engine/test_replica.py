"""The replica against one that takes every step and keeps every token's time."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.acceptance import Acceptance
from engine.core.budgets import Budget
from engine.core.config import PreemptionConfig, SchedulerConfig
from engine.core.costs import CostModel
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane, LaneConfig
from engine.core.policies import NAMES, make
from engine.core.request import Request
from engine.core.scheduler import Scheduler
from engine.core.speculation import SpeculationConfig
from engine.prefixes import chain
from engine.replica import Replica
from ranker.types import LEVELS, Forecast
from tests.engine import naive

# Odd numbers: no sum of steps falls on another's time but by design.
COST = CostModel(base=0.0301, decode=0.00207, prefill=0.00073, context=0.00031, swap=0.00011)

rows = st.lists(
    st.tuples(
        st.floats(0.0, 4.0),
        st.integers(1, 40),
        st.integers(1, 40),
        st.floats(1.0, 50.0),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=25,
)


def hashes(row, group, prompt, length, size=4):
    """Prompts of a group begin alike; what follows them is each one's own."""
    own = chain(1000 + row, (prompt + length) // size)
    return (*chain(group, prompt // size), *own[prompt // size :])


def build(rows, lanes=("",)):
    now, requests = 0.0, []
    for i, (gap, prompt, length, said, group) in enumerate(rows):
        now += gap
        forecast = Forecast(said, tuple(said * (0.5 + p) for p in LEVELS), "r", "1")
        requests.append(
            Request(
                str(i), now, prompt, forecast, length, f"t{group}", lanes[group % len(lanes)],
                group, hashes(i, group, prompt, length) if group else (),
            )
        )  # fmt: skip
    return requests


def check(requests, config, make_lanes, *, rate=0.0, **options):
    """Both ways of the replica agree with the naive run; returns the last result."""
    truth = naive.run(requests, config, make_lanes(), COST, rate=rate, **options)
    for skip in (True, False):
        replica = Replica(
            config, make_lanes(), COST, skip=skip, acceptance=Acceptance(rate), **options
        )
        for request in requests:
            replica.submit(request)
        replica.advance()
        result = replica.result()
        assert [t.request_id for t in result.timings] == truth.order
        for timing in result.timings:
            seen, gaps = truth.seen[timing.request_id], truth.gaps(timing.request_id)
            assert timing.first_token == pytest.approx(seen.tokens[0])
            assert timing.finished == pytest.approx(seen.ended)
            assert timing.output_tokens == seen.request.output_tokens
            assert timing.preemptions == seen.request.preemptions
            assert timing.gaps == len(gaps)
            assert timing.longest_gap == pytest.approx(max(gaps, default=0.0))
            assert timing.gap_squares == pytest.approx(sum(g * g for g in gaps), abs=1e-9)
        every = [gap for name in truth.order for gap in truth.gaps(name)]
        if every:
            assert result.itl.mean == pytest.approx(np.mean(every))
            assert result.itl.std == pytest.approx(np.std(every), abs=1e-6)
        assert list(result.refused) == truth.refused
        assert result.steps == truth.steps
        assert result.peak_waiting == truth.peak_waiting
        assert result.duration == pytest.approx(truth.now - requests[0].arrival)
        assert result.mean_waiting * result.duration == pytest.approx(truth.waited, abs=1e-6)
        assert result.utilisation * result.duration == pytest.approx(truth.busy)
        assert result.peak_kv_usage == pytest.approx(truth.peak_kv)
        if not skip:  # over a run of steps that was skipped it is taken to grow evenly
            assert result.kv_usage * truth.busy == pytest.approx(truth.kv_seconds)
        busy = truth.busy * config.max_num_seqs
        assert result.slot_usage * busy == pytest.approx(truth.slot_seconds)
    return result


@settings(max_examples=80, deadline=None)
@given(
    rows,
    st.sampled_from(NAMES),
    st.integers(1, 4),
    st.integers(0, 20),
    st.integers(20, 60),
    st.integers(0, 40),
    st.sampled_from([5, 100]),
)
def test_every_policy_with_little_memory(rows, policy, slots, extra, blocks, host, max_waiting):
    config = SchedulerConfig(
        slots, slots + extra, 4, blocks, max_waiting=max_waiting, host_blocks=host, cost=COST
    )
    check(build(rows), config, lambda: make(policy, cost=COST, batch=slots))


@settings(max_examples=30, deadline=None)
@given(
    rows,
    st.integers(2, 4),
    st.booleans(),
    st.sampled_from([None, 0.7]),
    st.sampled_from([None, Budget(15.0, 40.0)]),
    st.sampled_from(["fcfs", "mlfq", "srpt"]),
)
def test_lanes_tenants_and_budgets(rows, slots, reclaim, max_wait, budget, policy):
    def lanes():
        return [
            Lane(LaneConfig("chat", share=2.0, max_wait=max_wait), make("fcfs")),
            Lane(LaneConfig("batch", reclaim=reclaim), make(policy, cost=COST, batch=slots)),
        ]

    config = SchedulerConfig(slots, slots + 12, 4, 40, cost=COST)
    fairness = FairnessConfig(weights={"t1": 2.0}, default_budget=budget)
    check(build(rows, ("chat", "batch")), config, lanes, fairness=fairness)


@settings(max_examples=40, deadline=None)
@given(rows, st.integers(1, 4), st.floats(0.0, 1.0), st.integers(20, 60))
def test_speculation(rows, slots, rate, blocks):
    config = SchedulerConfig(slots, slots + 20, 4, blocks, cost=COST)
    speculation = SpeculationConfig(max_drafts=3, draft_seconds=0.0011)
    check(build(rows), config, lambda: make("fcfs"), rate=rate, speculation=speculation)


def test_swaps_are_charged_and_stalls_are_seen():
    """Two requests outgrow memory: one is swapped out and back, and its reader waits for it."""
    config = SchedulerConfig(
        2, 64, 4, 12, host_blocks=20, preemption=PreemptionConfig("swap"), cost=COST
    )
    requests = [Request(str(i), 0.0, 8, true_tokens=24) for i in range(2)]
    result = check(requests, config, lambda: make("fcfs"))
    assert result.stats.swapped_tokens > 0
    first, second = sorted(result.timings, key=lambda t: t.request_id)
    assert second.preemptions == 1
    assert second.longest_gap > 4 * first.longest_gap
    spread = result.timings.itl_std
    assert max(spread) > 10 * min(spread)


def test_costs_go_with_events_and_not_with_tokens(monkeypatch):
    """A hundred thousand tokens are generated in a few calls per request."""
    calls = []
    schedule = Scheduler.schedule
    monkeypatch.setattr(
        Scheduler, "schedule", lambda self, now: calls.append(now) or schedule(self, now)
    )
    config = SchedulerConfig(4, 64, 16, 4000)
    replica = Replica(config, make("fcfs"), COST)
    for i in range(50):
        replica.submit(Request(str(i), 0.3 * i, 40, true_tokens=2000 + 11 * i))
    replica.advance()
    result = replica.result()
    assert result.summary.output_tokens > 100_000
    assert result.steps > 25_000
    assert len(calls) <= 4 * 50


def test_kv_usage_of_skipped_steps_is_near_that_of_each():
    config = SchedulerConfig(8, 64, 16, 600)
    requests = [Request(str(i), 0.2 * i, 40, true_tokens=100 + 40 * (i % 7)) for i in range(60)]
    truth = naive.run(requests, config, make("fcfs"), COST)
    result = check(requests, config, lambda: make("fcfs"))
    replica = Replica(config, make("fcfs"), COST)
    for request in requests:
        replica.submit(request)
    replica.advance()
    assert result.steps == replica.result().steps
    assert replica.result().kv_usage == pytest.approx(truth.kv_seconds / truth.busy, rel=0.02)


def test_requests_without_a_lane_are_of_the_first():
    lanes = [Lane(LaneConfig(name), make("fcfs")) for name in ("chat", "batch")]
    replica = Replica(SchedulerConfig(2, 64, 4, 60), lanes, COST)
    for i, lane in enumerate(("", "batch", "chat")):
        replica.submit(Request(str(i), 0.0, 5, true_tokens=4, lane=lane))
    replica.advance()
    parts = replica.result().timings.by_lane()
    assert {name: len(part) for name, part in parts.items()} == {"chat": 2, "batch": 1}


def test_advances_to_a_time_and_goes_on():
    requests = [Request(str(i), 0.4 * i, 5, true_tokens=30) for i in range(6)]
    config = SchedulerConfig(2, 64, 4, 60)
    whole, parts = (Replica(config, make("fcfs"), COST) for _ in range(2))
    for request in requests:
        whole.submit(request)
    whole.advance()
    for request in requests:
        parts.advance(request.arrival)
        assert parts.now >= request.arrival - 1e-9 or not parts.outstanding
        parts.submit(request)
    for until in np.arange(2.5, 6.0, 0.13):
        parts.advance(float(until))
    parts.advance()
    one, other = whole.result(), parts.result()
    assert [t.request_id for t in one.timings] == [t.request_id for t in other.timings]
    assert one.timings.finished == pytest.approx(other.timings.finished)
    assert one.steps == other.steps


def test_says_when_nothing_will_ever_run():
    """A tenant whose debt outlasts all time would wait for ever; the clock does go to its end."""
    fairness = FairnessConfig(budgets={"poor": Budget(1.0, 1.0)})
    replica = Replica(SchedulerConfig(2, 64, 4, 60), make("fcfs"), COST, fairness=fairness)
    for i in range(2):
        replica.submit(Request(str(i), 0.0, 5, true_tokens=4, tenant="poor"))
    replica.advance(3.0)
    assert (replica.now, replica.outstanding) == (3.0, 1)
    replica.advance()
    assert replica.outstanding == 0
    second = replica.result().timings[1]
    assert second.ttft > 5.0


def test_refuses_what_it_cannot_simulate():
    replica = Replica(SchedulerConfig(1, 64, 4, 10), make("fcfs"), COST)
    replica.submit(Request("a", 5.0, 3, true_tokens=1))
    for request, message in (
        (Request("b", 4.0, 3, true_tokens=1), "arrives before"),
        (Request("b", 6.0, 3), "true_tokens"),
        (Request("b", 6.0, 38, true_tokens=3), "num_blocks"),
    ):
        with pytest.raises(ValueError, match=message):
            replica.submit(request)
    with pytest.raises(ValueError, match="acceptance"):
        Acceptance(1.5)
    assert math.isnan(replica.result().jain)
