"""Runs of equal steps taken at once are what one step after another is, whatever is configured."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.budgets import Budget
from engine.core.config import AdmissionConfig, PreemptionConfig, SchedulerConfig
from engine.core.costs import CostModel
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane, LaneConfig
from engine.core.policies import make
from engine.core.request import Request
from engine.prefixes import chain
from engine.replica import Replica
from ranker.types import LEVELS, Forecast

# Odd numbers: no sum of steps falls on another's time but by design.
COST = CostModel(base=0.0301, decode=0.00207, prefill=0.00073, context=0.00031, swap=0.00011)

policies = st.sampled_from(
    ["fcfs", "sjf", "srpt", "srpt:granularity=1", "mlfq", "mlfq:quantum=0.3,starvation=1.5", "ltr",
     "ltr:starvation=7,period=3", "srpt_predicted", "srpt_predicted:granularity=1", "gittins",
     "tie", "priority", "priority:preempts=yes", "boost", "ranked", "prompt_sjf"]
)  # fmt: skip
lane = st.tuples(
    st.sampled_from([0.5, 1.0, 3.0]),
    st.integers(0, 1),
    st.sampled_from([None, 0.5, 2.0, 8.0]),
    st.booleans(),
    policies,
)
fairness = st.sampled_from(
    [None, FairnessConfig(weights={"t1": 2.0}, credit=100.0)]
    + [FairnessConfig(default_budget=Budget(rate, 60.0), counters=rate < 100) for rate in (30, 200)]
)


@st.composite
def configs(draw):
    slots = draw(st.integers(1, 6))
    size = draw(st.sampled_from([1, 2, 4, 8]))
    host = draw(st.sampled_from([0, 10, 200]))
    modes = ["auto", "recompute", "swap"] if host else ["auto", "recompute"]
    return SchedulerConfig(
        slots,
        slots + draw(st.sampled_from([0, 4, 30, 200])),
        size,
        draw(st.integers(48, 120)) // size,
        max_waiting=draw(st.sampled_from([6, 1000])),
        host_blocks=host,
        prefix_cache=draw(st.booleans()),
        admission=AdmissionConfig(draw(st.sampled_from(["off", "static", "predicted"]))),
        preemption=PreemptionConfig(draw(st.sampled_from(modes))),
        cost=draw(st.sampled_from([COST, None])),
    )


def requests(rng, config, lanes):
    now, gap, found = 0.0, rng.choice([0.05, 0.3, 2.0]), []
    for i in range(rng.randint(1, 40)):
        now += rng.choice([0.0, rng.expovariate(1.0 / gap)])
        prompt, length = rng.randint(1, 40), rng.randint(1, 60)
        if prompt + length > config.capacity:
            prompt, length = 2, 4
        group, size = rng.randint(0, 3), config.block_size
        own = chain(1000 + i, (prompt + length) // size)
        hashes = (*chain(group, prompt // size), *own[prompt // size :]) if group else ()
        said = rng.uniform(1.0, 60.0)
        forecast = Forecast(said, tuple(said * (0.3 + p) for p in LEVELS), "r", "1")
        found.append(
            Request(
                str(i), now, prompt, forecast if rng.random() < 0.8 else None, length,
                f"t{rng.randint(0, 2)}", rng.choice(lanes).name, rng.randint(0, 2), hashes,
            )
        )  # fmt: skip
    return found


@settings(max_examples=80, deadline=None)
@given(configs(), st.lists(lane, min_size=1, max_size=3), fairness, st.integers(0, 1 << 32))
def test_skipping_is_stepping(config, chosen, fairness, seed):
    def lanes():
        return [
            Lane(
                LaneConfig(str(i), share, precedence, max_wait, reclaim=reclaim),
                make(policy, cost=COST, batch=config.max_num_seqs),
            )
            for i, (share, precedence, max_wait, reclaim, policy) in enumerate(chosen)
        ]

    found = requests(random.Random(seed), config, lanes())
    results = []
    for skip in (True, False):
        replica = Replica(config, lanes(), COST, skip=skip, fairness=fairness)
        for request in found:
            replica.submit(request)
        replica.advance()
        replica.scheduler.check_integrity()
        results.append(replica.result())
    skipped, stepped = results
    assert skipped.steps == stepped.steps
    assert skipped.refused == stepped.refused
    assert skipped.stats == stepped.stats
    for ours, theirs in zip(skipped.timings, stepped.timings, strict=True):
        assert (ours.request_id, ours.output_tokens) == (theirs.request_id, theirs.output_tokens)
        assert ours.preemptions == theirs.preemptions
        assert ours.first_token == pytest.approx(theirs.first_token, abs=1e-6)
        assert ours.finished == pytest.approx(theirs.finished, abs=1e-6)
