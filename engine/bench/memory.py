"""What admission control is worth when memory is short.

A pool of half of what the slots would like to hold is offered more than it can serve. With
admission off the scheduler lets in whom it has to preempt again: the thrash regime. What a static
limit of concurrency can do about it is found by sweep; predicted admission has to do as well
without being told the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from engine.bench.parallel import over_seeds
from engine.bench.shortage import Measured, Shortage, ShortageConfig, Variant
from engine.comparison import Spread
from engine.core.config import AdmissionConfig, AdmissionMode, PreemptionMode
from engine.engine_profiles import EngineProfile
from engine.workload import Lengths


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """The study. limits: static limits of concurrency to try, as shares of the slots. levels:
    quantiles of the remaining lengths that predicted admission reckons with.

    Raises ``ValueError`` naming the field.
    """

    shortage: ShortageConfig = field(default_factory=ShortageConfig)
    limits: tuple[float, ...] = (0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8)
    levels: tuple[float, ...] = (0.5, 0.7, 0.8, 0.9)

    def __post_init__(self) -> None:
        if not self.limits or not all(0.0 < share < 1.0 for share in self.limits):
            raise ValueError("limits must be one or more shares of the slots, in (0, 1)")
        if not self.levels:
            raise ValueError("levels must name at least one quantile")


@dataclass(frozen=True, slots=True)
class Row:
    """One variant over seeds. relative: its goodput over that of the best static limit."""

    variant: Variant
    relative: Spread
    goodput: Spread
    throughput: Spread
    wasted: Spread
    preemptions: Spread
    mean_e2el: Spread
    p99_e2el: Spread
    p99_max_waiting: Spread


@dataclass(frozen=True, slots=True)
class MemoryStudy:
    """demand, pool: tokens of KV memory. objective: seconds of TPOT. rate: requests per second.
    best: name of the static limit whose median goodput is highest."""

    demand: int
    pool: int
    objective: float
    rate: float
    rows: tuple[Row, ...]
    best: str

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.variant.name == name)


def variants(config: MemoryConfig, profile: EngineProfile) -> list[Variant]:
    """Static limits with admission off, up to all slots; again on an engine that cannot swap; then
    all slots, with each kind of admission."""
    slots = profile.max_num_seqs
    limits = sorted({max(1, round(share * slots)) for share in config.limits} - {slots})
    recompute = [
        Variant(f"{name}, recompute only", limit, preemption=PreemptionMode.RECOMPUTE)
        for name, limit in (*((f"limit {limit}", limit) for limit in limits), ("off", slots))
    ]
    predicted = [AdmissionConfig(AdmissionMode.PREDICTED, level=level) for level in config.levels]
    return [
        *(Variant(f"limit {limit}", limit) for limit in limits),
        Variant("off", slots),
        *recompute,
        Variant("static", slots, AdmissionConfig(AdmissionMode.STATIC)),
        *(Variant(f"predicted {each.level:g}", slots, each) for each in predicted),
    ]


def study(
    config: MemoryConfig,
    lengths: Lengths,
    profile: EngineProfile,
    seeds: Sequence[int],
    jobs: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> MemoryStudy:
    """Run every variant on the same traffic for each seed; ``progress`` counts runs."""
    world = Shortage.of(config.shortage, lengths, profile)
    tried = variants(config, profile)
    found = over_seeds(partial(_run, world), tried, seeds, jobs, progress)
    by_name = {variant.name: runs for variant, runs in zip(tried, found, strict=True)}
    best = max(
        (v.name for v in tried if v.swept and v.preemption is PreemptionMode.AUTO),
        key=lambda name: float(np.median([run.goodput for run in by_name[name]])),
    )
    return MemoryStudy(
        demand=world.demand,
        pool=world.num_blocks * profile.block_size,
        objective=world.objective,
        rate=world.rate,
        rows=tuple(_row(v, by_name[v.name], by_name[best]) for v in tried),
        best=best,
    )


def _run(world: Shortage, item: tuple[Variant, int]) -> Measured:
    return world.run(*item)


def _row(variant: Variant, runs: Sequence[Measured], best: Sequence[Measured]) -> Row:
    def spread(name: str) -> Spread:
        return Spread.of([float(getattr(run, name)) for run in runs])

    return Row(
        variant,
        Spread.of([run.goodput / most.goodput for run, most in zip(runs, best, strict=True)]),
        *(spread(name) for name in Row.__dataclass_fields__ if name not in ("variant", "relative")),
    )
