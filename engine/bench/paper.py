"""The shapes of the tables that length-aware schedulers were published with.

A burst, Poisson arrivals over a range of rates, the first samples of many, and the rate that is
sustained at equal latency; all policies on the same requests, with forecasts of the same tau.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from engine import workload
from engine.bench.classes import bucket_of, in_classes
from engine.bench.parallel import map_runs
from engine.bench.sustained import Curves, Sustained, sustained
from engine.bench.traffic import served, tau
from engine.comparison import Spread
from engine.core.config import SchedulerConfig
from engine.core.policies import Policy, make
from engine.core.request import Request
from engine.engine_profiles import EngineProfile
from engine.replica import Replica
from engine.result import Result
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
    loads: tuple[float, ...] = (0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.6, 2.0)
    load_requests: int = 2000
    level: float = 3.0
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
    """One run. Seconds. waiting: mean max_waiting_time."""

    per_token: float
    p90_per_token: float
    e2el: float
    p99_e2el: float
    p99_per_token: float
    waiting: float


@dataclass(frozen=True, slots=True)
class Row:
    """One policy in one situation over seeds. ``gain``: FCFS over it, of mean per-token latency;
    e2el_gain, p99_gain: of mean and p99 E2EL. per_token, waiting: seconds."""

    policy: str
    gain: Spread
    e2el_gain: Spread
    p99_gain: Spread
    per_token: Spread
    p90_per_token: Spread
    waiting: Spread


@dataclass(frozen=True, slots=True)
class Paper:
    """class_tau: Kendall tau-b of the ten-bucket forecasts; class_right: share of requests in the
    bucket that was forecast. first: FCFS's time to the first samples over each policy's."""

    burst: tuple[Row, ...]
    poisson: dict[float, tuple[Row, ...]]
    first: dict[str, Spread]
    first_seconds: dict[str, Spread]
    sustained: tuple[Sustained, ...]
    class_tau: float
    class_right: float


#: ``burst``, ``poisson`` at a rate, or ``load`` at a share of capacity.
Situation = tuple[str, float]


def situations(config: PaperConfig) -> list[Situation]:
    return [
        ("burst", 0.0),
        *(("poisson", rate) for rate in config.rates),
        *(("load", load) for load in config.loads),
    ]


def runs(config: PaperConfig, seeds: int) -> int:
    """Simulations that :func:`study` takes."""
    return seeds * len(config.policies) * (len(situations(config)) + 1)


def study(
    config: PaperConfig,
    lengths: Lengths,
    profile: EngineProfile,
    seeds: Sequence[int],
    jobs: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> Paper:
    """Every policy in every situation for each seed; ``progress`` counts runs."""
    if not seeds:
        raise ValueError("seeds must not be empty")
    tried = [
        (situation, policy, seed)
        for situation in situations(config)
        for policy in config.policies
        for seed in seeds
    ]
    runs = map_runs(partial(_run, config, lengths, profile), tried, jobs, progress)
    found = dict(zip(tried, runs, strict=True))
    pairs = [(policy, seed) for policy in config.policies for seed in seeds]

    def further(done: int) -> None:
        progress(len(tried) + done)

    times = iter(map_runs(partial(_first, config, lengths, profile), pairs, jobs, further))
    first = {policy: [next(times) for _ in seeds] for policy in config.policies}
    rng = np.random.default_rng(seeds[0])
    drawn, forecasts = served(lengths, config.burst, config.tau, rng)
    plain = workload.requests(np.zeros(config.burst), drawn, forecasts)
    classes = [r.forecast.score for r in in_classes(plain, config.bucket) if r.forecast is not None]
    right = [bucket_of(tokens, config.bucket) for tokens in drawn.output_tokens]
    return Paper(
        burst=tuple(_row(found, ("burst", 0.0), p, seeds) for p in config.policies),
        poisson={
            rate: tuple(_row(found, ("poisson", rate), p, seeds) for p in config.policies)
            for rate in config.rates
        },
        first={
            policy: Spread.of([f / own for f, own in zip(first["fcfs"], seconds, strict=True)])
            for policy, seconds in first.items()
        },
        first_seconds={policy: Spread.of(seconds) for policy, seconds in first.items()},
        sustained=tuple(
            sustained(p, config.loads, config.level, [_curves(found, config, p, s) for s in seeds])
            for p in config.policies
        ),
        class_tau=tau(classes, drawn.output_tokens),
        class_right=float(np.mean([c == r for c, r in zip(classes, right, strict=True)])),
    )


_Found = dict[tuple[Situation, str, int], Cell]


def _run(
    config: PaperConfig,
    lengths: Lengths,
    profile: EngineProfile,
    item: tuple[Situation, str, int],
) -> Cell:
    (kind, value), policy, seed = item
    rng = np.random.default_rng(seed)  # the same traffic for every policy
    if kind == "burst":
        arrivals = np.zeros(config.burst)
    else:
        capacity = lengths.rate_at(1.0, profile.cost, profile.max_num_seqs)
        rate = value if kind == "poisson" else value * capacity
        count = max(2, round(rate * config.seconds)) if kind == "poisson" else config.load_requests
        arrivals = workload.renewal(count, rate, 1.0, rng)
    requests = _requests(config, lengths, policy, arrivals, rng)
    scheduler, made = _engine(config, profile, policy)
    return _cell(simulate(requests, scheduler, made, profile.cost))


def _first(
    config: PaperConfig, lengths: Lengths, profile: EngineProfile, item: tuple[str, int]
) -> float:
    """Seconds until the first samples have ended; the others are let go."""
    policy, seed = item
    rng = np.random.default_rng(seed)
    scheduler, made = _engine(config, profile, policy)
    replica = Replica(scheduler, made, profile.cost)
    for request in _requests(config, lengths, policy, np.zeros(config.samples), rng):
        replica.submit(request)
    while replica.outstanding > config.samples - config.first:
        replica.advance(max(0.0, replica.now) + 1.0)
    return float(np.sort(replica.result().timings.finished)[config.first - 1])


def _requests(
    config: PaperConfig, lengths: Lengths, policy: str, arrivals: Floats, rng: np.random.Generator
) -> list[Request]:
    drawn, forecasts = served(lengths, len(arrivals), config.tau, rng)
    requests = workload.requests(arrivals, drawn, forecasts)
    return in_classes(requests, config.bucket) if policy.startswith("class") else requests


def _engine(
    config: PaperConfig, profile: EngineProfile, policy: str
) -> tuple[SchedulerConfig, Policy]:
    made = make(POLICIES[policy], cost=profile.cost, batch=profile.max_num_seqs)
    host = round(config.host * profile.num_blocks)
    return replace(profile.config, host_blocks=host), made


def _cell(result: Result) -> Cell:
    summary = result.summary
    return Cell(
        per_token=summary.per_token.mean,
        p90_per_token=summary.per_token.p90,
        p99_per_token=summary.per_token.p99,
        e2el=summary.e2el.mean,
        p99_e2el=summary.e2el.p99,
        waiting=summary.max_waiting.mean if summary.max_waiting else math.nan,
    )


def _row(found: _Found, situation: Situation, policy: str, seeds: Sequence[int]) -> Row:
    own = [found[situation, policy, seed] for seed in seeds]
    base = [found[situation, "fcfs", seed] for seed in seeds]

    def gain(name: str) -> Spread:
        pairs = zip(base, own, strict=True)
        return Spread.of([getattr(b, name) / getattr(o, name) for b, o in pairs])

    def plain(name: str) -> Spread:
        return Spread.of([getattr(o, name) for o in own])

    return Row(
        policy,
        gain("per_token"),
        gain("e2el"),
        gain("p99_e2el"),
        plain("per_token"),
        plain("p90_per_token"),
        plain("waiting"),
    )


def _curves(found: _Found, config: PaperConfig, policy: str, seed: int) -> dict[str, Curves]:
    def curve(who: str, name: str) -> list[float]:
        return [getattr(found[("load", load), who, seed], name) for load in config.loads]

    return {
        name: (curve("fcfs", name), curve(policy, name))
        for name in ("per_token", "p99_per_token", "e2el")
    }
