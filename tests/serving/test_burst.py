"""Drawing a burst, interleaving policies and aggregating what came back."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.metrics import Timing
from serving.burst.client import Lengths, Reply, Sampling
from serving.burst.compare import PolicyResult, QueueDepth, compare, order, ratio
from serving.burst.items import BurstConfig, Item, draw


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
    seen: list[str] = []

    async def run(policy: str, name: str) -> list[Reply]:
        seen.append(name)
        return [reply(0.0, 1.0, 2.0 if policy == "a" else 4.0)]

    results = asyncio.run(compare(["a", "b"], 3, run))
    assert seen == ["a-0", "b-0", "b-1", "a-1", "a-2", "b-2"]
    assert [s.e2el.mean for s in results["b"].summaries] == [4.0] * 3
    assert ratio(results["b"], results["a"], lambda s: s.e2el.mean).per_run == (2.0, 2.0, 2.0)


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


def test_ratios_are_taken_repetition_by_repetition():
    slow = PolicyResult("a", ((reply(0, 1, 8),), (reply(0, 1, 16),)))
    fast = PolicyResult("b", ((reply(0, 1, 2),), (reply(0, 1, 2),)))
    found = ratio(slow, fast, lambda summary: summary.e2el.mean)
    assert (found.low, found.high) == (4.0, 8.0)
    assert found.mean == pytest.approx(32**0.5)
