"""Studies of an engine that is short of memory: directions of effects on a small one."""

import numpy as np
import pytest

from engine.bench import memory, preemption
from engine.bench.memory import MemoryConfig
from engine.bench.preemption import PreemptionStudyConfig
from engine.bench.shortage import Shortage, ShortageConfig
from engine.core.config import PreemptionMode
from engine.workload import Lengths
from tests.engine.bench.world import TINY

SHORT = ShortageConfig(requests=150, load=2.0)


def lengths():
    """Answers that differ, and of which none fills the pool by itself."""
    rng = np.random.default_rng(2)
    return Lengths(rng.integers(5, 40, 300), rng.integers(10, 150, 300))


@pytest.fixture(scope="module")
def admission():
    done = []
    config = MemoryConfig(SHORT, limits=(0.25, 0.5, 0.75), levels=(0.9,))
    found = memory.study(config, lengths(), TINY, range(2), progress=done.append)
    assert done == list(range(1, 2 * len(memory.variants(config, TINY)) + 1))
    return found


def test_the_pool_is_the_share_of_the_demand(admission):
    assert admission.pool == pytest.approx(admission.demand / 2, abs=16)


def test_admission_off_thrashes_and_predicted_admission_does_not(admission):
    off, predicted = admission.row("off"), admission.row("predicted 0.9")
    assert off.preemptions.median > 10
    assert off.wasted.median > 0.1
    assert predicted.preemptions.median < off.preemptions.median / 3
    assert predicted.wasted.median < off.wasted.median / 3


def test_a_low_limit_wastes_little_and_serves_less(admission):
    low, best = admission.row("limit 2"), admission.row(admission.best)
    assert low.wasted.median < admission.row("off").wasted.median / 5
    assert low.throughput.median < best.throughput.median
    assert (best.relative.p10, best.relative.p90) == (1.0, 1.0)
    assert all(
        row.relative.median <= 1.0
        for row in admission.rows
        if row.variant.swept and row.variant.preemption is PreemptionMode.AUTO
    )


def test_swap_is_chosen_where_the_bus_is_fast_and_recompute_where_it_is_slow():
    config = PreemptionStudyConfig(SHORT, bandwidths=(0.01, 1000.0))
    found = {(m.mode, m.bandwidth): m for m in preemption.study(config, lengths(), TINY, range(2))}
    auto, recompute, swap = PreemptionMode
    for factor, better, worse in ((0.01, recompute, swap), (1000.0, swap, recompute)):
        assert found[better, factor].mean_e2el.median == 1.0
        assert found[worse, factor].mean_e2el.median > 1.02
        assert found[auto, factor].mean_e2el.median <= 1.03
    # What recomputing costs does not depend on the bus.
    assert found[recompute, 0.01].preemptions == found[recompute, 1000.0].preemptions
    throughput, e2el = preemption.worst(list(found.values()))
    assert throughput >= 0.97
    assert e2el <= 1.03


def test_traffic_depends_on_the_seed_alone():
    world = Shortage.of(SHORT, lengths(), TINY)
    variants = memory.variants(MemoryConfig(SHORT), TINY)
    first, again, other = (world.run(variants[0], seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_mistakes_are_named():
    for field, value in (("requests", 1), ("share", 0.0), ("load", -1.0), ("stall", 0.0)):
        with pytest.raises(ValueError, match=field):
            ShortageConfig(**{field: value})
    with pytest.raises(ValueError, match="limits"):
        MemoryConfig(limits=(1.5,))
    with pytest.raises(ValueError, match="bandwidths"):
        PreemptionStudyConfig(bandwidths=())
    with pytest.raises(ValueError, match="share"):
        Shortage.of(ShortageConfig(share=1e-6), lengths(), TINY)
    with pytest.raises(ValueError, match="seeds"):
        memory.study(MemoryConfig(SHORT), lengths(), TINY, [])
