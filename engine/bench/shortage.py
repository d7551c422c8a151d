"""An engine whose KV memory is short of what its slots would like to hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from engine import workload
from engine.bench.service import finished_within, output_within
from engine.capacity import held
from engine.core.config import (
    AdmissionConfig,
    AdmissionMode,
    PreemptionConfig,
    PreemptionMode,
    SchedulerConfig,
)
from engine.core.lanes import Slo
from engine.core.policies import make
from engine.core.request import Request
from engine.engine_profiles import EngineProfile
from engine.metrics import goodput
from engine.scenarios import LEAST, served
from engine.simulator import simulate
from engine.workload import Lengths


@dataclass(frozen=True, slots=True)
class ShortageConfig:
    """The situation.

    share: KV pool as a share of the demand, which is what full slots hold on average.
    load: offered work over what the engine can do with the batch that fits into that pool.
    tau: of the forecasts, which predicted admission reads.
    stall: a request met its objective when its TPOT is at most so many times the mean TPOT of a
    full pool in which nobody is ever preempted.

    Raises ``ValueError`` naming the field.
    """

    requests: int = 3000
    share: float = 0.5
    load: float = 1.5
    policy: str = "fcfs"
    tau: float = 0.5
    stall: float = 1.5

    def __post_init__(self) -> None:
        if self.requests < 2:
            raise ValueError(f"requests must be at least 2, got {self.requests}")
        for name in ("share", "load", "stall"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the engine. limit: requests that may run at once. bandwidth: factor on the
    profile's bandwidth to the host."""

    name: str
    limit: int
    admission: AdmissionConfig = field(default_factory=lambda: AdmissionConfig(AdmissionMode.OFF))
    preemption: PreemptionMode = PreemptionMode.AUTO
    bandwidth: float = 1.0

    @property
    def swept(self) -> bool:
        """Whether nothing but the limit keeps requests out."""
        return self.admission.mode is AdmissionMode.OFF


@dataclass(frozen=True, slots=True)
class Measured:
    """One run. goodput: requests per second that ended and had met the objective, throughput:
    output tokens per second, both from a quarter of the arrivals' time to its end. wasted: tokens
    recomputed or swapped (each way counts), as a share of those generated. Latencies in seconds."""

    goodput: float
    throughput: float
    wasted: float
    preemptions: int
    mean_e2el: float
    p99_e2el: float
    p99_max_waiting: float


def demand(lengths: Lengths, slots: int) -> int:
    """Tokens that ``slots`` running requests hold on average."""
    return math.ceil(slots * held(lengths))


@dataclass(frozen=True, slots=True, eq=False)
class Shortage:
    """The engine, its traffic, and what follows from them. demand: tokens. num_blocks: the pool.
    rate: requests per second. objective: seconds of TPOT."""

    config: ShortageConfig
    profile: EngineProfile
    lengths: Lengths
    demand: int
    num_blocks: int
    rate: float
    objective: float

    @classmethod
    def of(cls, config: ShortageConfig, lengths: Lengths, profile: EngineProfile) -> Shortage:
        """Lengths that the pool can never hold are left out; ``ValueError`` below 80 others."""
        wanted = demand(lengths, profile.max_num_seqs)
        blocks = math.ceil(config.share * wanted / profile.block_size)
        size = lengths.prompt_tokens + lengths.output_tokens
        fits = size <= blocks * profile.block_size
        if fits.sum() < LEAST:
            raise ValueError(
                f"share: a pool of {blocks} blocks holds {fits.sum()} of {len(lengths)} lengths"
            )
        lengths = lengths.take(np.flatnonzero(fits))
        batch = max(1.0, config.share * profile.max_num_seqs)
        rate = lengths.rate_at(1.0, profile.cost, int(batch))
        # Of a full batch, each request takes its turn in every step: mean seconds per token.
        mean_tpot = batch / (rate * float(lengths.output_tokens.mean()))
        return cls(
            config, profile, lengths, wanted, blocks, config.load * rate, config.stall * mean_tpot
        )

    def run(self, variant: Variant, seed: int) -> Measured:
        """Simulate one variant. Traffic depends on the seed alone."""
        cost = replace(self.profile.cost, swap=self.profile.cost.swap / variant.bandwidth)
        scheduler = SchedulerConfig(
            max_num_seqs=variant.limit,
            max_num_batched_tokens=self.profile.max_num_batched_tokens,
            block_size=self.profile.block_size,
            num_blocks=self.num_blocks,
            host_blocks=8 * self.num_blocks,  # host memory is not what is short
            admission=variant.admission,
            preemption=PreemptionConfig(variant.preemption),
            cost=cost,
        )
        policy = make(self.config.policy, cost=cost, batch=variant.limit)
        result = simulate(self._traffic(seed), scheduler, policy, cost)
        summary = result.summary
        # While load is on and the engine full; how the last stragglers end says nothing of either.
        end = float(result.timings.arrival.max())
        window, seconds = (end / 4.0, end), 0.75 * end
        ended = finished_within(result.timings, *window)
        moved = result.stats.recomputed_tokens + result.stats.swapped_tokens
        return Measured(
            goodput=goodput(ended, Slo(tpot=self.objective), seconds),
            throughput=output_within(result.timings, *window) / seconds,
            wasted=moved / summary.output_tokens,
            preemptions=result.preemptions,
            mean_e2el=summary.e2el.mean,
            p99_e2el=summary.e2el.p99,
            p99_max_waiting=summary.max_waiting.p99 if summary.max_waiting else math.nan,
        )

    def _traffic(self, seed: int) -> list[Request]:
        rng = np.random.default_rng(seed)
        drawn, forecasts = served(self.lengths, self.config.requests, self.config.tau, rng)
        arrivals = workload.renewal(self.config.requests, self.rate, 1.0, rng)
        return workload.requests(arrivals, drawn, forecasts)
