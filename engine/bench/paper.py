"""The shapes of the tables that length-aware schedulers were published with.

A burst, Poisson arrivals over a range of rates, the first samples of many, and the rate that is
sustained at equal latency; all policies on the same requests, with forecasts of the same tau.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.bench.classes import bucket_of
from engine.bench.contest import Cell, Contest, PaperConfig, Situation, situations
from engine.bench.parallel import map_runs
from engine.bench.sustained import Curves, Sustained, sustained
from engine.comparison import Spread
from engine.engine_profiles import EngineProfile
from engine.scenarios import served
from engine.workload import Lengths


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
    bucket that was forecast. first: FCFS's time to the first samples over each policy's;
    first_prefill: share of it that their prompts took. swapping: share of the time that moving
    keys and values took at the highest rate. capacity: requests per second of full batches."""

    burst: tuple[Row, ...]
    poisson: dict[float, tuple[Row, ...]]
    first: dict[str, Spread]
    first_seconds: dict[str, Spread]
    sustained: tuple[Sustained, ...]
    class_tau: float
    class_right: float
    first_prefill: dict[str, float]
    swapping: dict[str, float]
    capacity: float


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
    """Every policy in every situation for each seed; ``progress`` counts :func:`runs`."""
    if not seeds:
        raise ValueError("seeds must not be empty")
    contest = Contest(config, lengths, profile)
    pairs = [(policy, seed) for policy in config.policies for seed in seeds]
    tried = [(situation, *pair) for situation in situations(config) for pair in pairs]
    found = dict(zip(tried, map_runs(contest.run, tried, jobs, progress), strict=True))

    def further(done: int) -> None:
        progress(len(tried) + done)

    firsts = dict(zip(pairs, map_runs(contest.first, pairs, jobs, further), strict=True))
    curves = {
        policy: [_curves(found, config, policy, seed) for seed in seeds]
        for policy in config.policies
    }
    busiest = ("poisson", config.rates[-1])
    class_tau, class_right = _classes(config, lengths, seeds[0])
    return Paper(
        burst=_rows(found, config, ("burst", 0.0), seeds),
        poisson={rate: _rows(found, config, ("poisson", rate), seeds) for rate in config.rates},
        first={
            policy: Spread.of(
                [firsts["fcfs", seed].seconds / firsts[policy, seed].seconds for seed in seeds]
            )
            for policy in config.policies
        },
        first_seconds={
            policy: Spread.of([firsts[policy, seed].seconds for seed in seeds])
            for policy in config.policies
        },
        sustained=tuple(
            sustained(policy, config.loads, config.level, curves[policy])
            for policy in config.policies
        ),
        class_tau=class_tau,
        class_right=class_right,
        first_prefill={
            policy: float(np.median([firsts[policy, seed].prefill for seed in seeds]))
            for policy in config.policies
        },
        swapping={
            policy: float(np.median([found[busiest, policy, seed].swapping for seed in seeds]))
            for policy in config.policies
        },
        capacity=lengths.rate_at(1.0, profile.cost, profile.max_num_seqs),
    )


_Found = dict[tuple[Situation, str, int], Cell]


def _classes(config: PaperConfig, lengths: Lengths, seed: int) -> tuple[float, float]:
    """Kendall tau-b of the buckets that are forecast, and how many are right."""
    from scipy.stats import kendalltau  # of the extra "train"

    rng = np.random.default_rng(seed)
    drawn, forecasts = served(lengths, max(config.burst, 1000), config.tau, rng)
    said = [bucket_of(forecast.median, config.bucket) for forecast in forecasts]
    right = [bucket_of(tokens, config.bucket) for tokens in drawn.output_tokens]
    hits = [one == other for one, other in zip(said, right, strict=True)]
    tau = float(kendalltau(said, drawn.output_tokens).statistic)
    return tau, float(np.mean(hits))


def _rows(
    found: _Found, config: PaperConfig, situation: Situation, seeds: Sequence[int]
) -> tuple[Row, ...]:
    return tuple(_row(found, situation, policy, seeds) for policy in config.policies)


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
