"""One slot is an M/G/1 queue, whose mean latencies are known: simulator, scheduler and policies
are held against the formulas.

Each mean is taken over independent runs, so its standard error is known too: four of them are
allowed, which chance exceeds once in some ten thousand times, and the runs are long enough that
they are a few per cent of the mean.
"""

import math
import random
import statistics

import pytest

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import Boost, BoostConfig, Fcfs, Priority, make
from engine.core.request import Request
from engine.simulator import simulate
from ranker.types import LEVELS, Forecast

pytestmark = pytest.mark.slow

TOKEN = 0.01  #: seconds of any step that gives one
COST = CostModel(base=0.0, decode=TOKEN, prefill=TOKEN)  # prompts have one token
SLOT = SchedulerConfig(max_num_seqs=1, max_num_batched_tokens=64, block_size=16, num_blocks=4096)
SIZES = {2: 0.5, 8: 0.3, 20: 0.2}  #: output tokens and their probabilities
LOAD = 0.5
RUNS, COUNT, EDGE = 8, 2000, 200  # requests at both ends of a run are left out

MEAN = TOKEN * sum(tokens * share for tokens, share in SIZES.items())
SQUARE = TOKEN**2 * sum(tokens**2 * share for tokens, share in SIZES.items())
RATE = LOAD / MEAN


def traffic(seed, sizes=SIZES, rate=RATE, count=COUNT):
    rng = random.Random(seed)
    now, found = 0.0, []
    for i in range(count):
        now += rng.expovariate(rate)
        tokens = rng.choices(list(sizes), list(sizes.values()))[0]
        forecast = Forecast(float(tokens), (float(tokens),) * len(LEVELS), "oracle", "1")
        found.append(
            Request(str(i), now, 1, forecast, true_tokens=tokens, priority=rng.randrange(3))
        )
    return found


def waits(policy, requests):
    """Seconds in the queue of each request that is not near an end of the run."""
    kept = {request.id: request for request in requests[EDGE:-EDGE]}
    return [
        (kept[timing.request_id], timing.e2el - TOKEN * timing.output_tokens)
        for timing in simulate(requests, SLOT, policy, COST).timings
        if timing.request_id in kept
    ]


def mean_waits(make_policy, group=lambda request: 0, runs=RUNS):
    """Group of requests to (mean wait, its standard error) over independent runs."""
    per_run = {}
    for seed in range(runs):
        groups = {}
        for request, wait in waits(make_policy(), traffic(seed)):
            groups.setdefault(group(request), []).append(wait)
        for name, found in groups.items():
            per_run.setdefault(name, []).append(statistics.fmean(found))
    return {
        name: (statistics.fmean(means), statistics.stdev(means) / math.sqrt(len(means)))
        for name, means in per_run.items()
    }


def agrees(found, expected):
    mean, error = found
    assert error < 0.1 * expected, "too few requests to tell"
    assert mean == pytest.approx(expected, abs=4 * error)


def cobham(before, upto):
    """Mean wait of a class without preemption, given the loads before it and up to it (1954)."""
    return RATE * SQUARE / 2 / ((1 - before) * (1 - upto))


def test_fcfs_is_pollaczek_khinchine():
    agrees(mean_waits(Fcfs)[0], RATE * SQUARE / (2 * (1 - LOAD)))


def test_sjf_is_cobham_with_a_class_for_each_size():
    found = mean_waits(lambda: make("sjf", cost=COST), lambda request: request.true_tokens)
    load = 0.0
    for tokens, share in sorted(SIZES.items()):
        upto = load + RATE * share * TOKEN * tokens
        agrees(found[tokens], cobham(load, upto))
        load = upto
    assert load == pytest.approx(LOAD)


def test_priority_classes_are_cobham():
    found = mean_waits(Priority, lambda request: request.priority)
    for level in range(3):
        agrees(found[level], cobham(LOAD * level / 3, LOAD * (level + 1) / 3))


@pytest.mark.parametrize("name", ["ranked", "tie:beta=0.1,decay=1"])
def test_sure_forecasts_make_it_sjf(name):
    requests = traffic(1)
    expected = simulate(requests, SLOT, make("sjf", cost=COST), COST)
    found = simulate(requests, SLOT, make(name, cost=COST), COST)
    assert order(found) == order(expected)


def order(result):
    return [timing.request_id for timing in sorted(result.timings, key=lambda t: t.finished)]


def boost(tier, k):
    return Boost(BoostConfig(tier=tier, k=k), COST, 1)


def test_boost_with_a_large_gamma_is_fcfs():
    requests = traffic(2)
    assert order(simulate(requests, SLOT, boost(0.0, 1e9), COST)) == [r.id for r in requests]


def test_boost_with_a_small_gamma_is_sjf():
    """Of a burst, when the longest class is known: while gamma and its reference stand still."""
    requests = traffic(3, rate=1e6, count=200)
    policy = boost(0.0, 1e-9)
    for request in traffic(5):
        policy.arrived(request)
    found = order(simulate(requests, SLOT, policy, COST))
    assert found == order(simulate(requests, SLOT, make("sjf", cost=COST), COST))


def test_the_express_tier_is_off_at_zero():
    requests = traffic(4)
    arrived = [request.id for request in requests]
    assert order(simulate(requests, SLOT, boost(0.0, None), COST)) == arrived
    assert order(simulate(requests, SLOT, boost(0.3, None), COST)) != arrived


def test_the_express_tier_costs_the_others_what_it_says():
    """The shortest hold .14 of the work and fit into a tier of .2, the next do not. They go first
    without preemption, the others first come, first served: two of Cobham's classes."""
    express = RATE * 0.5 * TOKEN * 2
    found = mean_waits(lambda: boost(0.2, None), lambda request: request.true_tokens > 2, runs=5)
    agrees(found[False], cobham(0.0, express))
    agrees(found[True], cobham(express, LOAD))


# -- with preemption, which costs nothing here: what is set aside keeps its memory ---------------


def schrage_miller(tokens):
    """Mean latency of a size under shortest remaining time first (Schrage & Miller 1966)."""

    def load(of):
        return RATE * TOKEN * sum(size * share for size, share in SIZES.items() if of(size))

    square = sum(min(size, tokens) ** 2 * share for size, share in SIZES.items())
    wait = RATE * TOKEN**2 * square / 2
    wait /= (1 - load(lambda size: size < tokens)) * (1 - load(lambda size: size <= tokens))
    return wait + sum(TOKEN / (1 - load(lambda size, t=t: size < t)) for t in range(1, tokens + 1))


def test_srpt_is_schrage_miller():
    found = mean_waits(lambda: make("srpt:granularity=1"), lambda request: request.true_tokens)
    for tokens in SIZES:
        wait = schrage_miller(tokens) - TOKEN * tokens
        mean, error = found[tokens]
        # A newcomer waits for the token under way: up to half a token more, less for long ones.
        assert mean == pytest.approx(wait, abs=4 * error + TOKEN / 2)


def test_two_levels_of_mlfq():
    """Eight tokens in the first level, no end in the second: T(x) = (V + x)/(1 − rho_1) beyond
    the first level, V the work of all in the system, and within it that of the first alone
    (Kleinrock 1976, vol. 2, section 4.7)."""
    name = f"mlfq:quantum={8 * TOKEN},ratio=1e6,starvation=inf"
    found = mean_waits(lambda: make(name, cost=COST), lambda request: request.true_tokens)
    first = RATE * TOKEN * sum(min(tokens, 8) * share for tokens, share in SIZES.items())
    square = TOKEN**2 * sum(min(tokens, 8) ** 2 * share for tokens, share in SIZES.items())
    for tokens in (2, 8):
        mean, error = found[tokens]
        wait = RATE * square / 2 / (1 - first)
        assert mean == pytest.approx(wait, abs=4 * error + TOKEN / 2)
    mean, error = found[20]
    work = RATE * SQUARE / 2 / (1 - LOAD)
    latency = (work + 20 * TOKEN) / (1 - first)
    assert mean + 20 * TOKEN == pytest.approx(latency, abs=4 * error + TOKEN / 2)
