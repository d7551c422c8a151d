"""Mean against tail: what each policy gains per token, and what the last percent pays for it.

Bursts of chat: the rate alternates between high and low, and the queue that a burst leaves behind
is what an order can do something about. Everything is a ratio to first come, first served on the
same requests, of those that arrived after the warm-up: a policy that learns has seen a burst then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from engine.bench.parallel import over_seeds
from engine.comparison import Spread
from engine.core.config import SchedulerConfig
from engine.core.policies import make
from engine.engine_profiles import EngineProfile
from engine.scenarios import Arrivals, Scenario, draw
from engine.simulator import simulate
from engine.timings import Timings
from engine.workload import Lengths
from ranker.types import Forecast

POLICIES = ("sjf", "ranked", "boost-safe", "boost-balanced", "boost-fast")


@dataclass(frozen=True, slots=True)
class FrontierConfig:
    """The study.

    cycles: of a high and a low rate in a run, ``period`` seconds each; the first ``warmup`` of them
    are not counted. swing 1 is bursts with silence between them, 0 a steady stream. utilisation:
    mean work that arrives, of what full batches can do. tau: Kendall tau-b of the forecasts, which
    are log lengths with Gaussian noise, calibrated on other lengths. brief: answers below so many
    output tokens are told apart, because latency per token makes much of them.
    policies: as :func:`engine.core.policies.make` reads them; fcfs is always there.

    Raises ``ValueError`` naming the field.
    """

    policies: tuple[str, ...] = POLICIES
    cycles: int = 4
    warmup: int = 1
    period: float = 60.0
    swing: float = 1.0
    utilisation: float = 0.92
    tau: float = 0.5
    brief: int = 10

    def __post_init__(self) -> None:
        if self.warmup < 0:
            raise ValueError(f"warmup must be at least 0, got {self.warmup}")
        if self.cycles <= self.warmup:
            raise ValueError(f"cycles must be above warmup ({self.warmup}), got {self.cycles}")
        if not self.policies:
            raise ValueError("policies must name at least one besides fcfs")
        self.scenario(2)  # which checks the rest

    def scenario(self, requests: int) -> Scenario:
        return Scenario(
            Arrivals.WAVES,
            requests=requests,
            utilisation=self.utilisation,
            period=self.period,
            swing=self.swing,
            tau=self.tau,
        )


@dataclass(frozen=True, slots=True)
class Point:
    """One policy in one run, against fcfs.

    gain: mean E2EL per output token, fcfs over this; gain_without_brief: without brief answers.
    brief_share: of the seconds per token saved, those that brief answers saved; NaN when none were.
    Others: latency of this policy over that of fcfs. max_ttft: the longest wait for a first token.
    """

    gain: float
    gain_without_brief: float
    brief_share: float
    mean_e2el: float
    p50_e2el: float
    p90_e2el: float
    p99_e2el: float
    p99_ttft: float
    max_ttft: float


@dataclass(frozen=True, slots=True)
class FrontierRow:
    """One policy on one engine over seeds; see :class:`Point`. requests: counted in a run."""

    engine: str
    slots: int
    policy: str
    requests: Spread
    gain: Spread
    gain_without_brief: Spread
    brief_share: Spread
    mean_e2el: Spread
    p50_e2el: Spread
    p90_e2el: Spread
    p99_e2el: Spread
    p99_ttft: Spread
    max_ttft: Spread


def study(
    config: FrontierConfig,
    lengths: Lengths,
    engines: Sequence[EngineProfile],
    seeds: Sequence[int],
    jobs: int = 1,
    progress: Callable[[int], None] = lambda done: None,
    known: Sequence[Forecast] | None = None,
) -> list[FrontierRow]:
    """Rows by engine, then by policy. ``known``: a ranker's forecasts, one per length, instead of
    noise. ``progress`` counts pairs of engine and seed."""
    if not seeds or not engines:
        raise ValueError("seeds and engines must name at least one each")
    found = over_seeds(partial(_cell, config, lengths, known), engines, seeds, jobs, progress)
    rows = []
    for engine, runs in zip(engines, found, strict=True):
        counts = Spread.of([count for count, _ in runs])
        for place, policy in enumerate(config.policies):
            spreads = Spread.each([asdict(points[place]) for _, points in runs])
            rows.append(FrontierRow(engine.name, engine.max_num_seqs, policy, counts, **spreads))
    return rows


def _cell(
    config: FrontierConfig,
    lengths: Lengths,
    known: Sequence[Forecast] | None,
    cell: tuple[EngineProfile, int],
) -> tuple[int, list[Point]]:
    engine, seed = cell
    slots, cost = engine.max_num_seqs, engine.cost
    rate = lengths.rate_at(config.utilisation, cost, slots)
    count = max(2, round(rate * 2.0 * config.period * config.cycles))
    requests = draw(config.scenario(count), lengths, cost, slots, seed, known)
    limits = _limits(engine)
    begins = requests[0].arrival + 2.0 * config.period * config.warmup

    def run(policy: str) -> Timings:
        made = make(policy, cost=cost, batch=slots)
        timings = simulate(requests, limits, made, cost).timings
        return timings.select(timings.arrival >= begins)

    fcfs = run("fcfs")
    return len(fcfs), [point(run(policy), fcfs, config.brief) for policy in config.policies]


def _limits(engine: EngineProfile) -> SchedulerConfig:
    """No prefix is shared here, so looking for one would only take time."""
    return replace(engine.config, prefix_cache=False)


def point(found: Timings, fcfs: Timings, brief: int) -> Point:
    """Compare two runs of the same requests."""
    mine, theirs = found.output_tokens < brief, fcfs.output_tokens < brief
    before, after = fcfs.per_token, found.per_token
    saved = float(before.sum() - after.sum())
    of_brief = float(before[theirs].sum() - after[mine].sum())

    def ratio(percent: float, name: str) -> float:
        values, base = getattr(found, name), getattr(fcfs, name)
        return float(np.percentile(values, percent) / np.percentile(base, percent))

    return Point(
        gain=float(before.mean() / after.mean()),
        gain_without_brief=float(before[~theirs].mean() / after[~mine].mean()),
        brief_share=of_brief / saved if saved > 0.0 else float("nan"),
        mean_e2el=float(found.e2el.mean() / fcfs.e2el.mean()),
        p50_e2el=ratio(50, "e2el"),
        p90_e2el=ratio(90, "e2el"),
        p99_e2el=ratio(99, "e2el"),
        p99_ttft=ratio(99, "ttft"),
        max_ttft=ratio(100, "ttft"),
    )


def sweep(
    tiers: Sequence[float] = (0.02, 0.05, 0.12, 0.2, 0.3),
    ks: Sequence[float] = (2.0, 4.0, 8.0),
    patiences: Sequence[float] = (0.6, 0.8, 1.0, 1.2),
) -> dict[str, list[str]]:
    """Policies to draw the frontier with, by what is behind the tier: first come, first served;
    gamma-Boost by ``k``; shortest first by patience. Each family by name, then its members."""
    found = {"tier, then fcfs": [f"boost-safe:tier={tier:g}" for tier in tiers]}
    for k in ks:
        name = f"tier, then boost k={k:g}"
        found[name] = [f"boost-safe:tier={tier:g},k={k:g}" for tier in (0.0, *tiers)]
    for patience in patiences:
        name = f"tier, then shortest, patience {patience:g}"
        found[name] = [f"boost-fast:tier={tier:g},patience={patience:g}" for tier in (0.0, *tiers)]
    return found
