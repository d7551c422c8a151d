"""One policy in one situation of the published evaluations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine import workload
from engine.bench.classes import in_classes
from engine.core.config import SchedulerConfig
from engine.core.policies import Policy, make
from engine.core.request import Request
from engine.engine_profiles import EngineProfile
from engine.replica import Replica
from engine.scenarios import served
from engine.simulator import simulate
from engine.workload import Floats, Lengths

#: Name in the tables, and the policy. Classes: forecasts cut into ten buckets of equal width.
POLICIES = {
    "fcfs": "fcfs",
    "mlfq": "mlfq",
    "class-10": "ranked",
    "ranked": "ranked",
    "ltr": "ltr",
    "boost": "boost-fast",
    "oracle": "sjf",
}


@dataclass(frozen=True, slots=True)
class PaperConfig:
    """The study; defaults are those of Fu et al. 2024 where there are any.

    burst: requests that are all there at once. rates: requests per second of Poisson arrivals, for
    ``seconds`` each. samples, first: of so many at once, when are the first done? loads: rates
    that throughput at equal latency is looked for in, as shares of what full batches can do, over
    ``load_requests`` each. level: that latency, as a multiple of FCFS's at the lowest load.
    tau: of the forecasts with the lengths; .54 is what the paper's ranker reached on ShareGPT.
    bucket: tokens of each of the ten classes; 512 puts about as many answers of ShareGPT into the
    right one as the paper's classifier did (85 %).
    host: KV memory on the host, as a multiple of the device's: both papers swap what they preempt.

    Raises ``ValueError`` naming the field.
    """

    burst: int = 2000
    rates: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    seconds: float = 60.0
    samples: int = 10_000
    first: int = 1000
    loads: tuple[float, ...] = (0.5, 0.85, 1.0, 1.15, 1.3, 1.6, 2.0, 2.5, 3.0)
    load_requests: int = 2000
    level: float = 10.0
    tau: float = 0.54
    bucket: int = 512
    host: float = 4.0
    policies: tuple[str, ...] = tuple(POLICIES)

    def __post_init__(self) -> None:
        for name in ("burst", "samples", "load_requests"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2, got {getattr(self, name)}")
        if not 1 <= self.first <= self.samples:
            raise ValueError(f"first must lie between 1 and samples, got {self.first}")
        for name in ("rates", "loads"):
            values = getattr(self, name)
            if not values or values[0] <= 0.0 or list(values) != sorted(set(values)):
                raise ValueError(f"{name} must ascend from above 0, got {values}")
        if not (self.seconds > 0.0 and self.level > 1.0 and self.host >= 0.0):
            raise ValueError("seconds must be above 0, level above 1 and host at least 0")
        if self.bucket < 1:
            raise ValueError(f"bucket must be at least 1 token, got {self.bucket}")
        for name in self.policies:
            if name not in POLICIES:
                raise ValueError(f"policies must be of {', '.join(POLICIES)}, got {name!r}")
        if "fcfs" not in self.policies:
            raise ValueError("policies must have fcfs among them: gains are over it")


@dataclass(frozen=True, slots=True)
class Cell:
    """One run. Seconds. waiting: mean max_waiting_time. swapping: share of the time that went into
    moving keys and values between device and host."""

    per_token: float
    p90_per_token: float
    p99_per_token: float
    e2el: float
    p99_e2el: float
    waiting: float
    swapping: float


@dataclass(frozen=True, slots=True)
class First:
    """Seconds until the first samples had ended; prefill: share of them that their prompts took."""

    seconds: float
    prefill: float


#: ``burst``, ``poisson`` at a rate, or ``load`` at a share of capacity.
Situation = tuple[str, float]


def situations(config: PaperConfig) -> list[Situation]:
    return [
        ("burst", 0.0),
        *(("poisson", rate) for rate in config.rates),
        *(("load", load) for load in config.loads),
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """The engine and the lengths that all policies meet; traffic follows from the seed alone."""

    config: PaperConfig
    lengths: Lengths
    profile: EngineProfile

    def run(self, item: tuple[Situation, str, int]) -> Cell:
        """A situation, a policy and a seed."""
        (kind, value), policy, seed = item
        config, cost = self.config, self.profile.cost
        rng = np.random.default_rng(seed)
        if kind == "burst":
            arrivals = np.zeros(config.burst)
        else:
            capacity = self.lengths.rate_at(1.0, cost, self.profile.max_num_seqs)
            rate = value if kind == "poisson" else value * capacity
            timed = max(2, round(rate * config.seconds))
            count = timed if kind == "poisson" else config.load_requests
            arrivals = workload.renewal(count, rate, 1.0, rng)
        requests = self._requests(policy, arrivals, rng)
        result = simulate(requests, *self._engine(policy), cost)
        summary = result.summary
        return Cell(
            per_token=summary.per_token.mean,
            p90_per_token=summary.per_token.p90,
            p99_per_token=summary.per_token.p99,
            e2el=summary.e2el.mean,
            p99_e2el=summary.e2el.p99,
            waiting=summary.max_waiting.mean if summary.max_waiting else math.nan,
            swapping=result.stats.swapped_tokens * cost.swap / result.duration,
        )

    def first(self, item: tuple[str, int]) -> First:
        """A policy and a seed: all samples are asked for at once, and when the first have ended
        the others are let go."""
        policy, seed = item
        config = self.config
        rng = np.random.default_rng(seed)
        replica = Replica(*self._engine(policy), self.profile.cost)
        for request in self._requests(policy, np.zeros(config.samples), rng):
            replica.submit(request)
        while replica.outstanding > config.samples - config.first:
            replica.advance(max(0.0, replica.now) + 1.0)
        timings = replica.result().timings
        order = np.argsort(timings.finished, kind="stable")[: config.first]
        seconds = float(timings.finished[order[-1]])
        prompts = int(timings.prompt_tokens[order].sum())
        return First(seconds, prompts * self.profile.cost.prefill / seconds)

    def _requests(
        self, policy: str, arrivals: Floats, rng: np.random.Generator
    ) -> Sequence[Request]:
        config = self.config
        drawn, forecasts = served(self.lengths, len(arrivals), config.tau, rng)
        requests = workload.requests(arrivals, drawn, forecasts)
        return in_classes(requests, config.bucket) if policy.startswith("class") else requests

    def _engine(self, policy: str) -> tuple[SchedulerConfig, Policy]:
        profile = self.profile
        host = round(self.config.host * profile.num_blocks)
        made = make(POLICIES[policy], cost=profile.cost, batch=profile.max_num_seqs)
        return replace(profile.config, host_blocks=host), made
