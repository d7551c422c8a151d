"""Drawing a burst, interleaving policies and aggregating what came back."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from drift.tau import kendall_tau
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.request import Request
from engine.efficiency import sjf_efficiency
from engine.metrics import Timing
from ranker.types import LEVELS, Forecast
from serving.burst.client import Lengths, Reply, Sampling
from serving.burst.compare import PolicyResult, QueueDepth, compare, order, ratio
from serving.burst.items import BurstConfig, Item, draw
from serving.burst.session import Comparison, SessionConfig
from serving.burst.table import as_dict, facts, rows, verdict

FORECAST = Forecast(1.0, tuple(10.0 * (i + 1) for i in range(len(LEVELS))), "r", "1")


def timing(arrival: float, first: float, finished: float, tokens: int = 10) -> Timing:
    return Timing("r", arrival, first, finished, prompt_tokens=5, output_tokens=tokens)


def reply(*times: float, tokens: int = 10, scored: bool = True) -> Reply:
    return Reply(timing(*times, tokens=tokens), scored, 0.0, 0)


ROWS = [(f"id{i}", f"prompt {i}", 1 + i % 600) for i in range(1200)]


def test_a_burst_is_reproducible_ordered_by_arrival_and_within_its_limits():
    config = BurstConfig(requests=50, spread_s=2.0, max_tokens=300, seed=3)
    items = draw(ROWS, config)
    assert items == draw(ROWS, config)
    assert items != draw(ROWS, BurstConfig(requests=50, spread_s=2.0, max_tokens=300, seed=4))
    assert [item.at for item in items] == sorted(item.at for item in items)
    assert all(0.0 <= item.at <= 2.0 and item.output_tokens <= 300 for item in items)
    recorded = {row[0]: row for row in ROWS}
    assert all(recorded[i.id] == (i.id, i.prompt, i.output_tokens) for i in items)
    assert len({item.id for item in items}) == 50


def test_too_few_rows_say_what_to_change():
    with pytest.raises(ValueError, match=r"requests: only 3 rows .* ask for fewer"):
        draw(ROWS[:3], BurstConfig(requests=4))


@pytest.mark.parametrize(
    ("field", "value"), [("requests", 1), ("spread_s", -1.0), ("max_tokens", 0)]
)
def test_bad_burst_shapes_name_their_field(field: str, value: float):
    with pytest.raises(ValueError, match=field):
        BurstConfig(**{field: value})


def test_no_prompt_shows_in_a_repr():
    assert "secret" not in repr(Item("a", "secret", 3, 0.0))


def test_only_the_sampler_hears_of_the_recorded_length():
    item = Item("a", "p", 37, 0.0)
    logged = Sampling(Lengths.LOG, seed=10).params(2, item)
    assert (logged.max_tokens, logged.ignore_eos, logged.seed) == (37, True, 12)
    own = Sampling(Lengths.OWN, own_limit=99).params(0, item)
    assert (own.max_tokens, own.ignore_eos) == (99, False)


def test_policies_are_interleaved_so_that_drift_of_the_machine_cancels():
    assert order(["a", "b"], 2) == [("a", 0), ("b", 0), ("b", 1), ("a", 1)]
    with pytest.raises(ValueError, match="repeats"):
        order(["a"], 0)


def test_each_policy_gets_its_own_replies_in_order_of_repetition():
    seen: list[tuple[str, int]] = []

    async def run(policy: str, repetition: int) -> list[Reply]:
        seen.append((policy, repetition))
        return [reply(0.0, 1.0, repetition + (2.0 if policy == "a" else 4.0))]

    results = asyncio.run(compare(["a", "b"], 3, run, together=False))
    assert seen == order(["a", "b"], 3)
    assert [t.e2el for t in results["b"].timings] == [4.0, 5.0, 6.0]


def test_policies_that_run_together_overlap():
    inside = 0

    async def run(policy: str, repetition: int) -> list[Reply]:
        nonlocal inside
        inside += 1
        while inside < 2 * (repetition + 1):  # both of a repetition must be here to go on
            await asyncio.sleep(0)
        return [reply(0.0, 1.0, 2.0)]

    results = asyncio.run(compare(["a", "b"], 2, run, together=True))
    assert [len(result.runs) for result in results.values()] == [2, 2]


def test_queue_depth_is_a_time_average():
    # One request waits 0-4, another 1-3: (1 * 2 + 2 * 2) / 4.
    depth = QueueDepth.of([timing(0, 4, 5), timing(1, 3, 5)])
    assert (depth.mean, depth.peak) == (1.5, 2)


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.floats(0, 100)).map(
            lambda pair: timing(pair[0], pair[0] + pair[1], pair[0] + pair[1])
        ),
        min_size=1,
        max_size=20,
    )
)
def test_queue_depth_obeys_littles_law(timings: list[Timing]):
    depth = QueueDepth.of(timings)
    span = max(t.first_token for t in timings) - min(t.arrival for t in timings)
    assert depth.mean * span == pytest.approx(sum(t.ttft for t in timings), abs=1e-6)
    assert depth.peak <= len(timings)


def test_unscored_requests_are_counted():
    replies = (reply(0, 1, 2), reply(0, 1, 2, scored=False))
    assert PolicyResult("p", (replies,)).unscored == 0.5


def test_the_ratio_of_means_has_a_paired_bootstrap_interval():
    generator = np.random.default_rng(3)
    a = generator.lognormal(1.0, 0.5, 300)
    slow = PolicyResult("a", (tuple(reply(0, 0, x) for x in a),))
    fast = PolicyResult("b", (tuple(reply(0, 0, x / 2) for x in a),))
    always = ratio(slow, fast, lambda timing: timing.e2el)
    # Twice as fast for each request: whichever are drawn, the ratio of means is 2.
    assert (always.value, always.low, always.high) == pytest.approx((2.0, 2.0, 2.0))

    b = generator.permutation(a) / 2
    other = PolicyResult("b", (tuple(reply(0, 0, x) for x in b),))
    found = ratio(slow, other, lambda timing: timing.e2el)
    theirs = bootstrap(
        (a, b),
        lambda x, y, axis: x.mean(axis=axis) / y.mean(axis=axis),
        paired=True,
        method="percentile",
        random_state=0,
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), rel=0.02)


def test_a_ratio_needs_the_same_requests_on_both_sides():
    one = PolicyResult("a", ((reply(0, 1, 2),),))
    two = PolicyResult("b", ((reply(0, 1, 2), reply(0, 1, 2)),))
    with pytest.raises(ValueError, match="argument 2 is longer"):
        ratio(one, two, lambda timing: timing.e2el)


def test_a_burst_that_fits_into_the_engine_is_refused():
    with pytest.raises(ValueError, match="nothing queues"):
        SessionConfig(max_num_seqs=8, burst=BurstConfig(requests=8))
    with pytest.raises(ValueError, match="policy must differ"):
        SessionConfig(policy="fcfs")


def comparison(slow: tuple[Reply, ...], fast: tuple[Reply, ...]) -> Comparison:
    requests = [
        Request(str(i), 0.0, 5, FORECAST, true_tokens=10 * (i + 1)) for i in range(len(slow))
    ]
    cost = CostModel(0.02, 0.001, 0.001)
    scheduler = SchedulerConfig(1, 64, 16, 64)
    return Comparison(
        results={"fcfs": PolicyResult("fcfs", (slow,)), "boost": PolicyResult("boost", (fast,))},
        items=[],
        forecasts=[FORECAST] * len(slow),
        tau=kendall_tau([1.0, 2.0, 3.0], [1, 2, 3]),
        efficiency=sjf_efficiency(requests, scheduler, cost),
        cost=cost,
        ranker="r version 1",
    )


def test_the_verdict_says_who_lost_and_admits_a_defeat():
    slow = (reply(0, 1, 4), reply(0, 2, 8), reply(0, 3, 9))
    fast = (reply(0, 1, 1), reply(0, 2, 2), reply(0, 3, 10))
    won = comparison(slow, fast)
    assert verdict(won).startswith("boost: 1.6x lower mean per-token latency than fcfs")
    assert "33% of requests took longer end to end under boost" in verdict(won)
    assert "did NOT beat fcfs" in verdict(comparison(fast, slow))
    columns, shown = rows(won)
    assert all(len(row) == len(columns) for row in shown)
    assert json.loads(json.dumps(as_dict(won)))["slower_share"] == pytest.approx(1 / 3)


def test_a_comparison_without_forecasts_says_that_it_is_none():
    slow = tuple(reply(0, i, 2 * i) for i in (1, 2, 3))
    seeing = comparison(slow, slow)
    blind = comparison(slow, (*slow[:2], reply(0, 3, 6, scored=False)))
    assert not any("no forecast" in fact for fact in facts(seeing))
    (said,) = (fact for fact in facts(blind) if "no forecast" in fact)
    assert said.startswith("33% of requests under boost had no forecast")
    assert "within 200 ms" in said
