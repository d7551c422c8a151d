import math

import numpy as np
import pytest

from engine.metrics import Latency, Timing, summarise


def test_timing_by_hand():
    timing = Timing("a", 10.0, 12.0, 16.0, 5, 9)
    assert (timing.ttft, timing.e2el, timing.tpot) == (2.0, 6.0, 0.5)
    assert timing.per_token == pytest.approx(6.0 / 9)
    assert Timing("a", 0.0, 1.0, 1.0, 5, 1).tpot is None


def test_summary_against_numpy():
    rng = np.random.default_rng(1)
    timings = []
    for i in range(500):
        arrival, wait, run = rng.uniform(0, 9, 3)
        tokens = int(rng.integers(1, 50))
        timings.append(Timing(str(i), arrival, arrival + wait, arrival + wait + run, 7, tokens))
    summary = summarise(timings)
    e2el = [t.finished - t.arrival for t in timings]
    assert summary.e2el.p99 == pytest.approx(np.percentile(e2el, 99))
    assert summary.per_token.mean == pytest.approx(
        np.mean([e / t.output_tokens for e, t in zip(e2el, timings, strict=True)])
    )
    assert summary.throughput == pytest.approx(summary.output_tokens / summary.duration)
    assert summary.as_dict()["e2el"]["p90"] == summary.e2el.p90


def test_nothing_to_measure():
    assert math.isnan(Latency.of([]).p99)
    with pytest.raises(ValueError, match="timings"):
        summarise([])


@pytest.mark.parametrize("times", [(1.0, 0.0, 2.0), (0.0, 2.0, 1.0), (0.0, float("nan"), 1.0)])
def test_times_must_ascend(times):
    with pytest.raises(ValueError, match="timing"):
        Timing("a", *times, 1, 1)
