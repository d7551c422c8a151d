"""What several rankers' orders are worth to a queue: the same bursts of the same requests."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from drift.cohorts import tau_of
from drift.efficiency import efficiency
from drift.tau import Tau
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
    ``requests`` of them without replacement, and their order and arrivals, once for all rankers."""
    found: dict[str, list[float]] = {name: [] for name in rankers}
    size = min(requests, len(outcomes))
    for _ in range(bursts):
        drawn = rng.sample(range(len(outcomes)), size)
        gaps = [rng.expovariate(1.0) for _ in drawn]
        arrivals = np.cumsum(gaps)
        for name, forecasts in rankers.items():
            burst = [
                replace(outcomes[i], arrival=float(at), finished=float(at), forecast=forecasts[i])
                for i, at in zip(drawn, arrivals, strict=True)
            ]
            worth = efficiency(burst)
            found[name].append(worth.e2el if worth is not None else math.nan)
    return {
        name: Value(
            float(np.mean(shares)),
            float(np.std(shares) / math.sqrt(bursts)),
            tau_of([replace(o, forecast=f) for o, f in zip(outcomes, rankers[name], strict=True)]),
        )
        for name, shares in found.items()
    }
