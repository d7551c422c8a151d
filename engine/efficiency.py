"""SJF efficiency: how much of what perfect knowledge would gain do the forecasts gain?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import Fcfs, Policy, Ranked, Sjf
from engine.core.request import Request
from engine.metrics import Summary
from engine.simulator import simulate
from ranker.types import FinishReason, Outcome

#: A small engine to replay orders on, and what its steps cost. Efficiency is a ratio, so that its
#: seconds cancel.
SMALL_ENGINE = SchedulerConfig(
    max_num_seqs=8, max_num_batched_tokens=512, block_size=16, num_blocks=8192
)
SMALL_COST = CostModel(base=0.02, decode=0.002, prefill=0.0005)


@dataclass(frozen=True, slots=True)
class Efficiency:
    """``(fcfs − forecast) / (fcfs − oracle)`` of two means, with the three runs it came from.

    1 is an oracle, 0 is FCFS, below 0 is worse than not predicting. NaN when the oracle gains
    less than 1 % over FCFS: then nothing queued, and there was nothing to gain.

    e2el discriminates between rankers; per_token (E2EL per output token) saturates early.
    """

    e2el: float
    per_token: float
    fcfs: Summary
    forecast: Summary
    oracle: Summary


def sjf_efficiency(
    requests: Sequence[Request],
    config: SchedulerConfig,
    cost: CostModel,
    policy: Callable[[], Policy] = Ranked,
) -> Efficiency:
    """Replay the arrivals under FCFS, under the forecasts, and under the true lengths.

    ``policy`` makes the one that reads forecasts: order by score unless another is asked for. The
    oracle is shortest job first by true work. Deterministic; see :func:`engine.simulator.simulate`
    for what it raises.
    """
    runs = [
        simulate(requests, config, replayed, cost).summary
        for replayed in (Fcfs(), policy(), Sjf(cost, config.max_num_seqs))
    ]
    fcfs, forecast, oracle = runs
    return Efficiency(
        e2el=share(fcfs.e2el.mean, forecast.e2el.mean, oracle.e2el.mean),
        per_token=share(fcfs.per_token.mean, forecast.per_token.mean, oracle.per_token.mean),
        fcfs=fcfs,
        forecast=forecast,
        oracle=oracle,
    )


def from_outcomes(
    outcomes: Sequence[Outcome], cost: CostModel, batch: int, utilisation: float | None = None
) -> list[Request]:
    """Requests to replay, in order of arrival, from what happened.

    Lengths cut by a limit are what the engine worked, so they count; aborted and failed requests
    and empty answers are left out. With ``utilisation`` all gaps between arrivals are scaled by
    one factor such that the work of ``batch`` slots fills that share of the time: a quiet day then
    still says what the forecasts would be worth on a busy one.

    Raises ``ValueError`` when utilisation is not above 0.
    """
    if utilisation is not None and utilisation <= 0.0:
        raise ValueError(f"utilisation must be above 0, got {utilisation}")
    whole = (FinishReason.STOP, FinishReason.LENGTH)
    rows = sorted(
        (o for o in outcomes if o.output_tokens >= 1 and o.finish_reason in whole),
        key=lambda outcome: outcome.arrival,
    )
    if not rows:
        return []
    start, span = rows[0].arrival, rows[-1].arrival - rows[0].arrival
    scale = 1.0
    if utilisation is not None and span > 0.0:
        work = sum(cost.work(max(1, o.prompt_tokens), o.output_tokens, batch) for o in rows)
        scale = work / (utilisation * span)
    return [
        Request(
            id=outcome.request_id,
            arrival=(outcome.arrival - start) * scale,
            prompt_tokens=max(1, outcome.prompt_tokens),
            forecast=outcome.forecast,
            true_tokens=outcome.output_tokens,
            tenant=outcome.tenant,
        )
        for outcome in rows
    ]


def share(fcfs: float, forecast: float, oracle: float) -> float:
    """Of what the oracle gains over FCFS, what the forecast gains; NaN when that is below 1 %."""
    gain = fcfs - oracle
    return (fcfs - forecast) / gain if gain > 0.01 * fcfs else math.nan
