"""What several rankers' orders are worth to a queue: the same bursts of the same requests."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from drift.cohorts import tau_of
from drift.efficiency import ReplayConfig, Run, requests_of
from drift.tau import Tau
from engine.core.policies import Fcfs, Policy, Ranked, Sjf
from engine.efficiency import share
from ranker.types import Forecast, Outcome


@dataclass(frozen=True, slots=True)
class Value:
    """SJF efficiency of mean E2EL: the mean over bursts, and its standard error; and tau-b of all
    requests with its 95 % interval."""

    efficiency: float
    error: float
    tau: Tau


def values(
    outcomes: Sequence[Outcome],
    rankers: Mapping[str, Sequence[Forecast]],
    bursts: int,
    requests: int,
    rng: random.Random,
) -> dict[str, Value]:
    """Each ranker's forecasts stand by the side of ``outcomes``, in order. A burst draws at most
    ``requests`` of them without replacement, and their order and arrivals, once for all rankers.
    Replayed as :func:`drift.efficiency.worth` does it."""
    config = ReplayConfig()
    found: dict[str, list[float]] = {name: [] for name in rankers}
    size = min(requests, len(outcomes))
    for _ in range(bursts):
        drawn = rng.sample(range(len(outcomes)), size)
        arrivals = np.cumsum([rng.expovariate(1.0) for _ in drawn])
        burst = [
            replace(outcomes[i], arrival=float(at), finished=float(at))
            for i, at in zip(drawn, arrivals, strict=True)
        ]
        fcfs, oracle = (
            _e2el(burst, policy, config)
            for policy in (Fcfs(), Sjf(config.cost, config.scheduler.max_num_seqs))
        )
        for name, forecasts in rankers.items():
            told = [replace(o, forecast=forecasts[i]) for o, i in zip(burst, drawn, strict=True)]
            found[name].append(share(fcfs, _e2el(told, Ranked(), config), oracle))
    return {
        name: Value(
            float(np.mean(shares)),
            float(np.std(shares) / math.sqrt(bursts)),
            tau_of([replace(o, forecast=f) for o, f in zip(outcomes, rankers[name], strict=True)]),
        )
        for name, shares in found.items()
    }


def _e2el(burst: Sequence[Outcome], policy: Policy, config: ReplayConfig) -> float:
    """Mean, in seconds of the replayed engine."""
    return Run.of(requests_of(burst, config, config.utilisation), policy, config).summary.e2el.mean
