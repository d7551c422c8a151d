"""Several replicas behind a router: which router, for which traffic?

Two kinds of traffic. Requests that have nothing to do with one another come in waves: what counts
is that no replica queues while another is idle. Conversations repeat all that was said before: what
counts is that a turn comes where its beginning is still in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from engine import workload
from engine.bench.parallel import over_seeds
from engine.cluster import run_cluster
from engine.comparison import Spread
from engine.core.policies import make
from engine.core.request import Request
from engine.engine_profiles import EngineProfile
from engine.forecasts import Kind, forecasts
from engine.outlook import Outlook
from engine.replica import Replica
from engine.router import ROUTERS, make_router
from engine.scenarios import served
from engine.sessions import Sessions
from engine.workload import Floats, Lengths

SINGLE, SESSIONS = "single requests", "conversations"


@dataclass(frozen=True, slots=True)
class RoutingConfig:
    """The study.

    load: work offered to all replicas, of what their full batches can do; of conversations only
    what is new in a turn counts, so with a cold cache it is more. turns: of a conversation, on
    average. think: seconds between an answer and the next turn, on average. pace: seconds per token
    at which answers are taken to come. system: tokens of a system prompt that all share.

    Raises ``ValueError`` naming the field.
    """

    replicas: int = 4
    requests: int = 4000
    load: float = 0.85
    policy: str = "boost-fast"
    routers: tuple[str, ...] = ROUTERS
    tau: float = 0.5
    turns: float = 5.0
    think: float = 30.0
    pace: float = 0.02
    system: int = 256
    context: int = 8192

    def __post_init__(self) -> None:
        for name in ("replicas", "context"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.requests < 2:
            raise ValueError(f"requests must be at least 2, got {self.requests}")
        if not self.load > 0.0:
            raise ValueError(f"load must be above 0, got {self.load}")
        if not self.turns >= 1.0:
            raise ValueError(f"turns must be at least 1, got {self.turns}")
        for router in self.routers:
            make_router(router)
        if not self.routers:
            raise ValueError("routers must name at least one")


@dataclass(frozen=True, slots=True)
class RoutingRow:
    """One router with one kind of traffic, over seeds.

    mean_e2el, p99_e2el, mean_ttft, p99_ttft: over those of the first router. seconds_*: of the mean
    and p99 E2EL. imbalance: output tokens of the busiest replica over the mean. hits: share of
    prompt tokens found in a prefix cache.
    """

    traffic: str
    router: str
    mean_e2el: Spread
    p99_e2el: Spread
    mean_ttft: Spread
    p99_ttft: Spread
    seconds_mean: Spread
    seconds_p99: Spread
    imbalance: Spread
    hits: Spread
    utilisation: Spread


def study(
    config: RoutingConfig,
    lengths: Lengths,
    profile: EngineProfile,
    seeds: Sequence[int],
    jobs: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> list[RoutingRow]:
    """Every router with both kinds of traffic for each seed; ``progress`` counts runs."""
    tried = [(traffic, router) for traffic in (SINGLE, SESSIONS) for router in config.routers]
    runs = over_seeds(partial(_run, config, lengths, profile), tried, seeds, jobs, progress)
    found = dict(zip(tried, runs, strict=True))
    rows = []
    for (traffic, router), own in found.items():
        base = found[traffic, config.routers[0]]
        ratios = {
            name: Spread.of([o[name] / b[name] for o, b in zip(own, base, strict=True)])
            for name in ("mean_e2el", "p99_e2el", "mean_ttft", "p99_ttft")
        }
        rows.append(RoutingRow(traffic, router, **{**Spread.each(own), **ratios}))
    return rows


def conversations(
    lengths: Lengths, count: int, turns: float, context: int, rng: np.random.Generator
) -> tuple[Sessions, Lengths]:
    """``count`` conversations whose messages and answers are ``lengths``, drawn with replacement,
    of a geometric number of turns; and what is new in each turn. One that would exceed ``context``
    tokens ends before. Raises ``ValueError`` when no turn fits.
    """
    sizes = rng.geometric(1.0 / turns, count)
    new = lengths.take(rng.integers(0, len(lengths), int(sizes.sum())))
    session = np.repeat(np.arange(count), sizes)
    said = np.cumsum(new.prompt_tokens + new.output_tokens)
    before = np.concatenate([[0], said[:-1]])
    firsts = np.searchsorted(session, np.arange(count))
    whole = before - before[firsts][session] + new.prompt_tokens
    keep = np.flatnonzero(whole + new.output_tokens <= context)
    if not len(keep):
        raise ValueError(f"context: no turn fits {context} tokens")
    _, numbers = np.unique(session[keep], return_inverse=True)
    prompts = Lengths(whole[keep], new.output_tokens[keep])
    return Sessions(numbers.astype(np.int64), prompts), new.take(keep)


def _run(
    config: RoutingConfig,
    lengths: Lengths,
    profile: EngineProfile,
    item: tuple[tuple[str, str], int],
) -> dict[str, float]:
    (traffic, router), seed = item
    rng = np.random.default_rng(seed)
    made = _single if traffic == SINGLE else _sessions
    requests = made(config, lengths, profile, rng)
    cost, slots = profile.cost, profile.max_num_seqs
    replicas = [
        Replica(
            profile.config,
            make(config.policy, cost=cost, batch=slots),
            cost,
            outlook=Outlook(cost, slots),
        )
        for _ in range(config.replicas)
    ]
    result = run_cluster(requests, replicas, make_router(router))
    summary = result.summary
    return {
        "mean_e2el": summary.e2el.mean,
        "p99_e2el": summary.e2el.p99,
        "mean_ttft": summary.ttft.mean,
        "p99_ttft": summary.ttft.p99,
        "seconds_mean": summary.e2el.mean,
        "seconds_p99": summary.e2el.p99,
        "imbalance": result.imbalance,
        "hits": result.prefix_hit_rate,
        "utilisation": result.utilisation,
    }


def _single(
    config: RoutingConfig, lengths: Lengths, profile: EngineProfile, rng: np.random.Generator
) -> list[Request]:
    rate = _rate(config, lengths, profile)
    drawn, made = served(lengths, config.requests, config.tau, rng)
    arrivals = workload.waves(config.requests, rate, 60.0, 0.6, rng)
    return workload.requests(arrivals, drawn, made)


def _sessions(
    config: RoutingConfig, lengths: Lengths, profile: EngineProfile, rng: np.random.Generator
) -> list[Request]:
    count = max(1, round(config.requests / config.turns))
    sessions, new = conversations(lengths, count, config.turns, config.context, rng)
    starts = _starts(sessions, _rate(config, new, profile), rng)
    arrivals = sessions.arrivals(starts, think=config.think, pace=config.pace, rng=rng)
    output = sessions.lengths.output_tokens
    made = forecasts(Kind.NOISE, output, lengths.output_tokens, config.tau, rng)
    return sessions.requests(
        arrivals, made, block_size=profile.block_size, shared_tokens=config.system
    )


def _starts(sessions: Sessions, rate: float, rng: np.random.Generator) -> Floats:
    """Poisson, so many that turns come at ``rate`` per second."""
    return workload.renewal(sessions.count, rate * sessions.count / len(sessions), 1.0, rng)


def _rate(config: RoutingConfig, lengths: Lengths, profile: EngineProfile) -> float:
    return config.replicas * lengths.rate_at(config.load, profile.cost, profile.max_num_seqs)
