import math
from dataclasses import dataclass

import numpy as np
import pytest

from engine.metrics import (
    Latency,
    Timing,
    attainment,
    by_lane,
    by_tenant,
    goodput,
    jain,
    summarise,
)
from engine.timing_table import in_columns


@dataclass
class Within:
    """An SLO with the three bounds that vllm bench serve knows."""

    ttft: float = math.inf
    tpot: float = math.inf
    e2el: float = math.inf

    def met(self, ttft, tpot, e2el):
        return ttft <= self.ttft and (tpot is None or tpot <= self.tpot) and e2el <= self.e2el


def test_timing_by_hand():
    timing = Timing("a", 10.0, 12.0, 16.0, 5, 9)
    assert (timing.ttft, timing.e2el, timing.tpot) == (2.0, 6.0, 0.5)
    assert timing.per_token == pytest.approx(6.0 / 9)
    assert Timing("a", 0.0, 1.0, 1.0, 5, 1).tpot is None


def drawn(count=500):
    rng = np.random.default_rng(1)
    timings = []
    for i in range(count):
        arrival, wait, run = rng.uniform(0, 9, 3)
        tokens = int(rng.integers(1, 50))
        gaps = rng.dirichlet(np.ones(tokens - 1)) * run if tokens > 1 else np.zeros(0)
        run = run if tokens > 1 else 0.0
        timings.append(
            Timing(
                str(i), arrival, arrival + wait, arrival + wait + run, 7, tokens,
                len(gaps), float(gaps.max(initial=0.0)), float((gaps**2).sum()), i % 3,
                tenant="ab"[i % 2], lane=("", "chat", "batch")[i % 3],
            )
        )  # fmt: skip
    return timings


def test_summary_against_numpy():
    timings = drawn()
    summary = summarise(timings)
    e2el = [t.finished - t.arrival for t in timings]
    assert summary.e2el.p99 == pytest.approx(np.percentile(e2el, 99))
    assert summary.e2el.std == pytest.approx(np.std(e2el))
    assert summary.e2el.median == summary.e2el.p50 == pytest.approx(np.median(e2el))
    tpot = [t.tpot for t in timings if t.tpot is not None]
    assert summary.tpot.p90 == pytest.approx(np.percentile(tpot, 90))
    assert summary.per_token.mean == pytest.approx(
        np.mean([e / t.output_tokens for e, t in zip(e2el, timings, strict=True)])
    )
    waited = [max(t.ttft, t.longest_gap) for t in timings]
    assert summary.max_waiting.mean == pytest.approx(np.mean(waited))
    assert summary.throughput == pytest.approx(summary.output_tokens / summary.duration)
    assert summary.request_throughput == pytest.approx(500 / summary.duration)
    assert summary.as_dict()["e2el"]["p90"] == summary.e2el.p90


def test_the_spread_of_gaps_shows_a_stall_that_the_mean_hides():
    even = Timing("a", 0.0, 1.0, 5.0, 1, 5, 4, 1.0, 4.0)
    stalled = Timing("b", 0.0, 1.0, 5.0, 1, 5, 4, 3.7, 3 * 0.1**2 + 3.7**2)
    assert even.tpot == stalled.tpot
    rows = in_columns([even, stalled])
    assert rows.itl_std[0] == pytest.approx(0.0, abs=1e-9)
    assert rows.itl_std[1] == pytest.approx(np.std([0.1, 0.1, 0.1, 3.7]))


def test_gaps_that_nobody_saw_are_not_made_up():
    summary = summarise([Timing("a", 0.0, 1.0, 5.0, 1, 5)])
    assert summary.itl is summary.itl_std is summary.max_waiting is None
    assert summary.as_dict()["max_waiting"] is None


def test_columns_give_back_the_rows():
    timings = drawn(40)
    rows = in_columns(timings)
    assert list(rows) == timings
    assert rows == in_columns(timings)
    assert rows != in_columns(timings[1:])
    assert list(rows[3:9]) == timings[3:9]
    assert rows[-1] == timings[-1]
    with pytest.raises(IndexError):
        rows[40]
    assert in_columns(rows) is rows
    assert list(rows.select(rows.output_tokens > 20)) == [
        t for t in timings if t.output_tokens > 20
    ]


def test_unobserved_gaps_compare_equal():
    assert in_columns([Timing("a", 0.0, 1.0, 5.0, 1, 5)]) == in_columns(
        [Timing("a", 0.0, 1.0, 5.0, 1, 5)]
    )


def test_split_by_tenant_and_lane():
    timings = drawn()
    tenants, lanes = by_tenant(timings), by_lane(timings)
    assert set(tenants) == {"a", "b"}
    assert tenants["a"] == summarise([t for t in timings if t.tenant == "a"])
    assert set(lanes) == {"", "chat", "batch"}
    assert sum(lane.requests for lane in lanes.values()) == 500


def test_goodput_by_hand():
    timings = [
        Timing("a", 0.0, 1.0, 3.0, 1, 3),  # ttft 1, tpot 1, e2el 3
        Timing("b", 0.0, 2.0, 2.0, 1, 1),  # ttft 2, no tpot, e2el 2
        Timing("c", 0.0, 1.0, 10.0, 1, 10),  # ttft 1, tpot 1, e2el 10
    ]
    assert attainment(timings, Within(ttft=1.0)) == pytest.approx(2 / 3)
    assert attainment(timings, Within(ttft=2.0, tpot=0.5)) == pytest.approx(1 / 3)
    assert goodput(timings, Within(ttft=2.0, e2el=3.0)) == pytest.approx(2 / 10)
    assert goodput(timings, Within(e2el=3.0), duration=4.0) == pytest.approx(2 / 4)
    assert goodput([], Within()) == 0.0
    assert math.isnan(attainment([], Within()))


def test_jain():
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain({"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0}) == pytest.approx(0.25)
    assert jain([1.0, 2.0]) == pytest.approx(9 / 10)
    assert math.isnan(jain([]))
    assert math.isnan(jain([0.0, 0.0]))


def test_nothing_to_measure():
    assert math.isnan(Latency.of([]).p99)
    with pytest.raises(ValueError, match="timings"):
        summarise([])


@pytest.mark.parametrize("times", [(1.0, 0.0, 2.0), (0.0, 2.0, 1.0), (0.0, float("nan"), 1.0)])
def test_times_must_ascend(times):
    with pytest.raises(ValueError, match="timing"):
        Timing("a", *times, 1, 1)
