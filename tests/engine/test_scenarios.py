"""Traffic drawn for a comparison."""

import numpy as np
import pytest

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.forecasts import Kind
from engine.scenarios import Arrivals, Scenario, draw
from engine.traces import Trace
from engine.workload import Lengths
from ranker.types import Forecast

COST = CostModel(base=0.03, decode=0.002, prefill=0.001)


def lengths(count=400):
    rng = np.random.default_rng(4)
    output = np.clip(rng.lognormal(4.5, 1.2, count), 1, 2000).astype(np.int64)
    return Lengths(rng.integers(5, 80, count), output)


def trace(count=300):
    arrivals = np.cumsum(np.random.default_rng(1).exponential(2.0, count))
    tenants = tuple(f"t{row % 3}" for row in range(count))
    return Trace("a", arrivals, lengths(count), tenants)


def test_gamma_gaps_are_as_bursty_as_asked_for():
    smooth, bursty = (
        np.diff([r.arrival for r in draw(scenario, lengths(), COST, 8, 1)])
        for scenario in (
            Scenario(Arrivals.GAMMA, requests=3000, burstiness=4.0),
            Scenario(Arrivals.GAMMA, requests=3000, burstiness=0.25),
        )
    )
    assert smooth.std() / smooth.mean() == pytest.approx(0.5, abs=0.1)
    assert bursty.std() / bursty.mean() == pytest.approx(2.0, abs=0.3)


def test_a_ramp_climbs():
    arrivals = [r.arrival for r in draw(Scenario(Arrivals.RAMP, 2000), lengths(), COST, 8, 1)]
    first, last = arrivals[500] - arrivals[0], arrivals[-1] - arrivals[-501]
    assert first > 2.0 * last


def test_a_trace_gives_a_window_of_itself_at_the_load_asked_for():
    scenario = Scenario(Arrivals.TRACE, requests=100, utilisation=0.5)
    requests = draw(scenario, trace(), COST, 8, 1)
    assert len(requests) == 100
    assert {request.tenant for request in requests} == {"t0", "t1", "t2"}
    sizes = [(r.prompt_tokens, r.true_tokens) for r in requests]
    prompts, outputs = trace().lengths.prompt_tokens, trace().lengths.output_tokens
    whole = list(zip(prompts.tolist(), outputs.tolist(), strict=True))
    assert any(whole[at : at + 100] == sizes for at in range(201))
    work = sum(COST.work(*size, 8) for size in sizes)
    assert work / (requests[-1].arrival - requests[0].arrival) == pytest.approx(0.5)
    other = draw(scenario, trace(), COST, 8, 2)
    assert [r.true_tokens for r in other] != [r.true_tokens for r in requests]


def test_a_short_trace_is_taken_whole():
    assert len(draw(Scenario(Arrivals.TRACE, requests=1000), trace(90), COST, 8, 1)) == 90


def test_requests_that_memory_cannot_hold_are_left_out_of_a_trace():
    small = SchedulerConfig(8, 512, 16, 32)
    requests = draw(Scenario(Arrivals.TRACE), trace(), COST, 8, 1, config=small)
    assert max(r.prompt_tokens + r.true_tokens for r in requests) <= small.capacity


@pytest.mark.parametrize("kind", list(Kind))
def test_forecasts_know_what_was_asked_for(kind):
    requests = draw(Scenario(requests=200, forecasts=kind), lengths(), COST, 8, 1)
    said = [request.forecast for request in requests]
    certain = [forecast.quantiles[0] == forecast.quantiles[-1] for forecast in said]
    assert all(certain) == (kind in (Kind.TRUTH, Kind.OVERCONFIDENT))
    assert (len({forecast.quantiles for forecast in said}) == 1) == (kind is Kind.FLAT)
    right = [f.median == r.true_tokens for f, r in zip(said, requests, strict=True)]
    assert all(right) == (kind is Kind.TRUTH)


def test_known_forecasts_go_with_their_lengths():
    table = lengths()
    known = [Forecast(float(n), (float(n),), "r", "1", (0.5,)) for n in table.output_tokens]
    requests = draw(Scenario(requests=200), table, COST, 8, 1, known)
    assert all(request.forecast.median == request.true_tokens for request in requests)


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ValueError, match="trace"):
        draw(Scenario(Arrivals.TRACE), lengths(), COST, 8, 1)
    with pytest.raises(ValueError, match="trace"):
        draw(Scenario(), trace(), COST, 8, 1)
    with pytest.raises(ValueError, match="known"):
        draw(Scenario(), lengths(), COST, 8, 1, [])
    with pytest.raises(ValueError, match="swing"):
        Scenario(Arrivals.RAMP, swing=1.0)
    with pytest.raises(ValueError, match="burstiness"):
        Scenario(burstiness=0.0)
