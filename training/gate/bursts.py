"""What either order is worth to a queue: the same bursts replayed through the scheduler."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from engine.arrivals import renewal
from engine.core.policies import Fcfs, Policy, Ranked, Sjf
from engine.core.request import Request
from engine.efficiency import from_outcomes, share
from engine.simulator import simulate
from ranker.types import FinishReason, Forecast, Outcome
from training.gate.config import BurstConfig
from training.gate.difference import Difference
from training.sources import Example

_NORMAL_95 = 1.96


def efficiency(
    champion: Sequence[Forecast],
    challenger: Sequence[Forecast],
    examples: Sequence[Example],
    config: BurstConfig,
    rng: np.random.Generator,
) -> Difference | None:
    """Difference in SJF efficiency of mean latency; ``None`` when the rows make no queue.

    Each burst draws rows with replacement and arrivals once, for both rankers. An answer that was
    cut off counts with the tokens that the engine made; aborted ones and those that could never
    fit are left out. Drawing ``m`` of ``n`` rows makes the spread of the bursts too wide by
    ``sqrt(n / m)``, which the interval takes back (m out of n bootstrap, Bickel, Götze & van Zwet
    1997).
    """
    kept = replayable(examples, config)
    if len(kept) < 2:
        return None
    size = min(config.requests, len(kept))
    worth = []
    for _ in range(config.bursts):
        drawn = rng.choice(kept, size)
        arrivals = renewal(size, 1.0, 1.0, rng)
        pair = [replay(f, examples, drawn, arrivals, config) for f in (champion, challenger)]
        found = _both(pair[0], pair[1], config)
        if not any(map(math.isnan, found)):
            worth.append(found)
    if len(worth) < 2:
        return None
    table = np.array(worth)
    gaps = table[:, 1] - table[:, 0]
    half = _NORMAL_95 * float(gaps.std(ddof=1)) * math.sqrt(size / len(kept))
    old, new = (float(column) for column in table.mean(axis=0))
    return Difference(old, new, new - old, new - old - half, new - old + half)


def replayable(examples: Sequence[Example], config: BurstConfig) -> list[int]:
    """Rows that an engine could work off: neither aborted nor empty nor too long for it."""
    return [
        i
        for i, e in enumerate(examples)
        if e.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
        and e.output_tokens >= 1
        and e.prompt_tokens + e.output_tokens < config.scheduler.capacity
    ]


def replay(
    forecasts: Sequence[Forecast],
    examples: Sequence[Example],
    drawn: np.ndarray,
    arrivals: np.ndarray,
    config: BurstConfig,
) -> list[Request]:
    """Requests for the rows ``drawn``, with their forecasts, at ``arrivals`` scaled to the
    utilisation of ``config``."""
    outcomes = [
        Outcome(
            request_id=str(number),
            served_model=examples[i].model,
            output_tokens=examples[i].output_tokens,
            finish_reason=examples[i].finish_reason,
            arrival=float(at),
            finished=float(at),
            prompt_tokens=examples[i].prompt_tokens,
            forecast=forecasts[i],
        )
        for number, (i, at) in enumerate(zip(drawn, arrivals, strict=True))
    ]
    return from_outcomes(outcomes, config.cost, config.scheduler.max_num_seqs, config.utilisation)


def _both(
    champion: Sequence[Request], challenger: Sequence[Request], config: BurstConfig
) -> tuple[float, float]:
    def latency(requests: Sequence[Request], policy: Policy) -> float:
        return simulate(requests, config.scheduler, policy, config.cost).summary.e2el.mean

    fcfs = latency(champion, Fcfs())
    oracle = latency(champion, Sjf(config.cost, config.scheduler.max_num_seqs))
    return (
        share(fcfs, latency(champion, Ranked()), oracle),
        share(fcfs, latency(challenger, Ranked()), oracle),
    )
