"""A small engine and small traffic for the studies."""

import numpy as np

from engine.core.costs import CostModel
from engine.engine_profiles import EngineProfile
from engine.workload import Lengths

TINY = EngineProfile(
    name="tiny",
    cost=CostModel(base=0.02, decode=0.001, prefill=0.0002, context=1e-6, swap=1e-5),
    max_num_seqs=8,
    max_num_batched_tokens=256,
    block_size=16,
    num_blocks=1024,
    host_blocks=0,
    source="made up for tests",
)


def lengths(count: int = 300, seed: int = 5) -> Lengths:
    rng = np.random.default_rng(seed)
    output = np.clip(rng.lognormal(3.5, 0.9, count), 1, 400).astype(np.int64)
    return Lengths(rng.integers(5, 60, count), output)
