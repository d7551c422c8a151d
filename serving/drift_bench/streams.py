"""Streams of outcomes as a monitor gets them: drawn from pools, queued, finished, put in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from drift.arrival import ArrivalOrder, HoldConfig
from drift.efficiency import ReplayConfig
from engine.arrivals import waves
from engine.core.policies import Fcfs, Policy, Ranked
from engine.core.request import Request
from engine.simulator import simulate
from ranker.types import FinishReason, Outcome
from serving.drift_bench.deck import Deck, Index


class Order(StrEnum):
    """How outcomes come to depend on one another.

    ``INDEPENDENT``: drawn one by one, in order. ``FCFS`` and ``SJF``: finished by the real
    scheduler under bursts of arrivals, and brought back into order by the real hold. ``TOPICS``:
    drawn in bursts of like forecasts.
    """

    INDEPENDENT = "independent"
    TOPICS = "topic-bursts"
    SJF = "sjf-bursts"
    FCFS = "fcfs"

    @property
    def queued(self) -> bool:
        """Whether an engine decides in which order requests finish."""
        return self in (Order.FCFS, Order.SJF)


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """``load``: work that arrives, of what the engine can do. ``swing`` and ``period``: relative
    height of the bursts, and how many arrivals each lasts on average. ``sojourn`` and ``purity``:
    arrivals that a topic lasts on average, and the share of them that are of it. ``hold``: how
    completions are brought back into order."""

    load: float = 0.9
    swing: float = 0.6
    period: float = 150.0
    sojourn: float = 100.0
    purity: float = 0.3
    engine: ReplayConfig = field(default_factory=ReplayConfig)
    hold: HoldConfig = field(default_factory=HoldConfig)

    def __post_init__(self) -> None:
        for name in ("load", "period", "sojourn"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"streams.{name} must be above 0, got {getattr(self, name)}")
        for name in ("swing", "purity"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"streams.{name} must lie in [0, 1], got {getattr(self, name)}")


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """One stream in the order in which a monitor sees it.

    ``place``: number of each outcome among the arrivals, ascending. ``held``: completions that each
    waited for its turn. ``late``: share that came too late for theirs.
    """

    place: Index
    held: Index
    late: float


def topics(rows: Index, scores: NDArray[np.float64], config: StreamConfig, seed: int) -> Index:
    """``rows``, independent draws, with bursts: a share of each burst is drawn anew among the
    rows whose forecasts lie in one third of all."""
    rng = np.random.default_rng(seed)
    thirds = np.array_split(np.argsort(scores, kind="stable"), 3)
    out = rows.copy()
    switch = rng.random(len(rows)) < 1.0 / config.sojourn
    of_topic = rng.random(len(rows)) < config.purity
    topic = int(rng.integers(3))
    for at in range(len(rows)):
        if switch[at]:
            topic = int(rng.integers(3))
        if of_topic[at]:
            out[at] = rng.choice(thirds[topic])
    return out


def release(
    rows: Index, deck: Deck, order: Order, config: StreamConfig, rng: np.random.Generator
) -> Released:
    """What a monitor makes of requests that arrive as ``rows`` of ``deck``."""
    if not order.queued:
        return Released(np.arange(len(rows)), np.zeros(len(rows), np.intp), 0.0)
    policy: Policy = Fcfs() if order is Order.FCFS else Ranked()
    return put_in_order(_finish(rows, deck, policy, config, rng), config.hold)


def put_in_order(finished: Sequence[int], config: HoldConfig) -> Released:
    """``finished``: numbers of arrivals in the order in which they finish."""
    hold = ArrivalOrder(config)
    when: dict[int, int] = {}
    place: list[int] = []
    held: list[int] = []

    def take(released: Sequence[Outcome], now: int) -> None:
        for outcome in released:
            number = int(outcome.arrival)
            place.append(number)
            held.append(now - when[number])

    for now, number in enumerate(finished):
        when[number] = now
        end = float(len(finished))
        take(hold.push(Outcome(str(number), "", 1, FinishReason.STOP, float(number), end)), now)
    take(hold.flush(), len(finished) - 1)
    late = 1.0 - len(place) / max(1, len(finished))
    return Released(np.array(place, np.intp), np.array(held, np.intp), late)


def _finish(
    rows: Index, deck: Deck, policy: Policy, config: StreamConfig, rng: np.random.Generator
) -> list[int]:
    """Numbers of arrivals in the order in which the engine is done with them."""
    batch, cost = config.engine.scheduler.max_num_seqs, config.engine.cost
    lengths = [(max(1, int(deck.pool.prompt_tokens[r])), int(deck.pool.tokens[r])) for r in rows]
    rate = config.load / float(np.mean([cost.work(p, t, batch) for p, t in lengths]))
    times = waves(len(rows), rate, config.period / rate, config.swing, rng)
    requests = [
        Request(
            id=str(number),
            arrival=float(times[number]),
            prompt_tokens=prompt,
            forecast=deck.forecasts[rows[number]],
            true_tokens=tokens,
        )
        for number, (prompt, tokens) in enumerate(lengths)
    ]
    result = simulate(requests, config.engine.scheduler, policy, cost)
    return [int(timing.request_id) for timing in result.timings]
