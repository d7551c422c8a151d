"""How much of the order of arrival the default policy keeps, given what forecasts know."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drift.tau import kendall_tau
from engine.core.costs import CostModel
from engine.core.policies import make
from engine.core.request import Request
from ranker.types import Forecast

#: Seconds of a step, per decode and per prefilled token: the bundled model on one busy core.
_COST = CostModel(0.0308, 0.00204, 0.00101)
_BATCH = 8


def order_kept(forecasts: Sequence[Forecast], prompt_tokens: Sequence[int], seed: int = 0) -> float:
    """Kendall tau-b between the order of boosted arrivals (k 4) and the order of arrival.

    The requests arrive in random order as a Poisson stream at full load. 1 is FCFS: that is what
    forecasts that are all alike give. Raises ``ValueError`` when there are no requests.
    """
    if not forecasts:
        raise ValueError("forecasts must not be empty")
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(forecasts))
    gap = np.mean(
        [_COST.work(p, f.mean, _BATCH) for p, f in zip(prompt_tokens, forecasts, strict=True)]
    )
    arrivals = np.cumsum(rng.exponential(float(gap), len(forecasts)))
    policy = make("boost:tier=0.12,k=4", cost=_COST, batch=_BATCH, setting="safe")
    keys = []
    for at, i in zip(arrivals, chosen, strict=True):
        request = Request(str(i), float(at), prompt_tokens[i], forecasts[i])
        policy.arrived(request)
        keys.append(policy.key(request))
    place = {i: n for n, i in enumerate(sorted(range(len(keys)), key=keys.__getitem__))}
    return kendall_tau([float(place[i]) for i in range(len(keys))], list(range(len(keys)))).value
