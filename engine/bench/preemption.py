"""Recompute or swap? The method chosen by cost against always the one and always the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from engine.bench.parallel import over_seeds
from engine.bench.shortage import Measured, Shortage, ShortageConfig, Variant
from engine.comparison import Spread
from engine.core.config import PreemptionMode
from engine.engine_profiles import EngineProfile
from engine.workload import Lengths


@dataclass(frozen=True, slots=True)
class PreemptionStudyConfig:
    """The study: admission off, so that memory is taken again and again. bandwidths: factors on
    the profile's bandwidth to the host, from where recompute is cheaper to where swap is."""

    shortage: ShortageConfig = field(default_factory=ShortageConfig)
    bandwidths: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)

    def __post_init__(self) -> None:
        if not self.bandwidths or min(self.bandwidths) <= 0.0:
            raise ValueError("bandwidths must be one or more factors above 0")


@dataclass(frozen=True, slots=True)
class Method:
    """One method at one bandwidth, over seeds.

    throughput, mean_e2el: over those of the better of always-recompute and always-swap on the same
    traffic; throughput below 1 or mean_e2el above 1 is worse than the better of the two.
    """

    mode: PreemptionMode
    bandwidth: float
    throughput: Spread
    mean_e2el: Spread
    wasted: Spread
    preemptions: Spread


def study(
    config: PreemptionStudyConfig,
    lengths: Lengths,
    profile: EngineProfile,
    seeds: Sequence[int],
    jobs: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Method]:
    """Run every method at every bandwidth on the same traffic; ``progress`` counts runs.

    Raises ``ValueError`` when the profile does not say what a swap costs.
    """
    if not profile.cost.swap:
        raise ValueError(f"profile {profile.name}: cost.swap is 0, so a swap would be free")
    world = Shortage.of(config.shortage, lengths, profile)
    tried = [(factor, mode) for factor in config.bandwidths for mode in PreemptionMode]
    runs = over_seeds(partial(_run, world), tried, seeds, jobs, progress)
    found = dict(zip(tried, runs, strict=True))
    return [_method(mode, factor, found) for factor, mode in tried]


def worst(methods: Sequence[Method]) -> tuple[float, float]:
    """Of the method chosen by cost, over bandwidths: the lowest median ratio of throughput and the
    highest of mean E2EL to the better of the other two."""
    chosen = [method for method in methods if method.mode is PreemptionMode.AUTO]
    return (
        min(method.throughput.median for method in chosen),
        max(method.mean_e2el.median for method in chosen),
    )


_Way = tuple[float, PreemptionMode]


def _run(world: Shortage, item: tuple[_Way, int]) -> Measured:
    (bandwidth, mode), seed = item
    slots = world.profile.max_num_seqs
    return world.run(Variant(mode, slots, preemption=mode, bandwidth=bandwidth), seed)


def _method(mode: PreemptionMode, factor: float, found: dict[_Way, list[Measured]]) -> Method:
    own = found[factor, mode]
    always = (found[factor, one] for one in (PreemptionMode.RECOMPUTE, PreemptionMode.SWAP))
    three = list(zip(own, *always, strict=True))
    return Method(
        mode,
        factor,
        throughput=Spread.of([a.throughput / max(b.throughput, c.throughput) for a, b, c in three]),
        mean_e2el=Spread.of([a.mean_e2el / min(b.mean_e2el, c.mean_e2el) for a, b, c in three]),
        wasted=Spread.of([run.wasted for run in own]),
        preemptions=Spread.of([run.preemptions for run in own]),
    )
