"""Traffic for tests of the drift benchmark: normal scores and log lengths, no text."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from ranker.types import LEVELS
from serving.drift_bench.pool import Pool
from serving.drift_bench.traffic import CHAT, Shift, Traffic, Usual

Z = np.array([NormalDist().inv_cdf(p) for p in LEVELS])


def make_pool(rows: int, tau: float, seed: int, *, believed: float | None = None) -> Pool:
    """Lengths that follow scores with this tau-b under forecasts that believe in ``believed``."""
    rng = np.random.default_rng(seed)
    rho = math.sin(math.pi * tau / 2)
    told = math.sin(math.pi * (tau if believed is None else believed) / 2)
    scores = rng.normal(size=rows)
    logs = 4.0 + rho * scores + math.sqrt(1 - rho * rho) * rng.normal(size=rows)
    tokens = np.maximum(1, np.rint(np.exp(logs))).astype(np.int64)
    return Pool(
        scores,
        np.exp(4.0 + told * scores[:, None] + math.sqrt(1 - told * told) * Z),
        tokens,
        np.zeros(rows, np.bool_),
        rng.integers(5, 60, rows),
    )


def make_traffic() -> Traffic:
    """Usual traffic of tau-b .45, one shift that leaves no order and one that leaves most of it."""
    usual = Usual(CHAT, make_pool(700, 0.45, 1), make_pool(600, 0.45, 2))
    return Traffic(
        {CHAT: usual},
        (
            Shift("lost", "no order", CHAT, make_pool(400, 0.0, 3, believed=0.45)),
            Shift("most", "most of the order", CHAT, make_pool(400, 0.38, 4, believed=0.45)),
        ),
        foreign=False,
    )
