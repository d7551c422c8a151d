"""Streams of observations for tests of detectors: normal scores and log lengths, ties, bounds."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from drift.detectors.observation import log_error, pit
from drift.detectors.sample import Sample
from ranker.types import LEVELS

Z = np.array([NormalDist().inv_cdf(p) for p in LEVELS])


def make_sample(
    shape: int | tuple[int, int],
    tau: float,
    seed: int,
    *,
    limit: int | None = None,
    scale: float = 1.0,
) -> Sample:
    """Scores and log lengths with this tau-b under calibrated forecasts, lengths ``scale`` times as
    long and cut off at ``limit``."""
    rng = np.random.default_rng(seed)
    rho = math.sin(math.pi * tau / 2)  # tau of a Gaussian copula is 2/pi asin(rho)
    spread = math.sqrt(1 - rho * rho)
    scores = rng.normal(size=shape)
    logs = 5.0 + rho * scores + spread * rng.normal(size=shape)
    tokens = np.maximum(1, np.rint(scale * np.exp(logs))).astype(np.int64)
    censored = np.zeros(tokens.shape, np.bool_)
    if limit is not None:
        censored, tokens = tokens >= limit, np.minimum(tokens, limit)
    quantiles = np.exp(5.0 + rho * scores[..., None] + spread * Z)
    flat = list(
        zip(quantiles.reshape(-1, len(Z)).tolist(), tokens.ravel().tolist(), censored.ravel(),
            strict=True)
    )  # fmt: skip
    middle = LEVELS.index(0.5)
    return Sample(
        scores,
        tokens,
        censored,
        np.array([pit(q, LEVELS, t, bool(c)) for q, t, c in flat]).reshape(tokens.shape),
        np.array([log_error(q[middle], t) for q, t, _ in flat]).reshape(tokens.shape),
        rng.integers(1, 400, shape),
    )
