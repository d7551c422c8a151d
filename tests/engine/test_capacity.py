import numpy as np
import pytest

from engine.capacity import at_utilisation, effective_batch, saturated_rate, utilisation
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import make
from engine.simulator import simulate
from engine.traces import Trace
from engine.workload import Lengths, renewal

COST = CostModel(base=0.03, decode=0.002, prefill=0.0005, context=1e-6)


def trace(count=600, prompt=100):
    rng = np.random.default_rng(2)
    lengths = Lengths(rng.integers(1, 2 * prompt, count), rng.integers(1, 200, count))
    return Trace("drawn", renewal(count, 2.0, 1.0, rng), lengths)


@pytest.mark.parametrize(
    ("slots", "blocks", "prompt"),
    [(8, 4000, 100), (64, 4000, 100), (64, 1000, 900)],
    ids=["slots", "many-slots", "memory"],
)
def test_the_formula_agrees_with_the_engine(slots, blocks, prompt):
    """Whether slots or memory is what runs out, to within 5 %."""
    config, drawn = SchedulerConfig(slots, 1024, 16, blocks), trace(prompt=prompt)
    formula = len(drawn) / drawn.span / utilisation(drawn, config, COST)
    assert saturated_rate(drawn.requests(), config, COST) == pytest.approx(formula, rel=0.05)


def test_memory_bounds_the_batch():
    lengths = Lengths(np.array([900, 100]), np.array([100, 300]))
    held = (100 * 950 + 300 * 250) / 400
    assert effective_batch(lengths, SchedulerConfig(64, 1024, 16, 100)) == pytest.approx(
        1600 / held
    )
    assert effective_batch(lengths, SchedulerConfig(2, 1024, 16, 100)) == 2.0
    assert effective_batch(lengths, SchedulerConfig(2, 1024, 16, 10)) == 1.0


def test_scaling_to_a_utilisation_fills_that_share_of_slots():
    config = SchedulerConfig(8, 1024, 16, 4000)
    drawn = at_utilisation(trace(2000), 0.6, config, COST)
    assert utilisation(drawn, config, COST) == pytest.approx(0.6)
    busy = at_utilisation(trace(2000), 1.3, config, COST)
    calm, full = (simulate(t.requests(), config, make("fcfs"), COST) for t in (drawn, busy))
    assert calm.mean_waiting < 3
    assert full.slot_usage > 0.95
    with pytest.raises(ValueError, match="utilisation"):
        at_utilisation(drawn, 0.0, config, COST)


def test_hits_raise_what_the_engine_can_do():
    config = SchedulerConfig(8, 2048, 16, 4000)
    drawn = trace(300, prompt=1500)
    shared = Trace("x", drawn.arrivals, drawn.lengths, prefixes=("same",) * len(drawn))
    alone, together = (saturated_rate(t.requests(), config, COST) for t in (drawn, shared))
    assert together > 1.1 * alone


def test_too_few_requests_saturate_nothing():
    with pytest.raises(ValueError, match="fill"):
        saturated_rate(trace(5).requests(), SchedulerConfig(8, 1024, 16, 4000), COST)
