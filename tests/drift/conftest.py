"""Streams of outcomes with a known rank correlation, made without any real text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from ranker.types import LEVELS, FinishReason, Forecast, Outcome

Z = [NormalDist().inv_cdf(p) for p in LEVELS]


def make_stream(
    n: int,
    tau: float,
    seed: int,
    *,
    start: int = 0,
    served_model: str = "m",
    version: str = "1",
    limit: int | None = None,
    scored: bool = True,
) -> list[Outcome]:
    """``n`` arrivals a second apart whose scores and log lengths are normal with this tau."""
    rng = np.random.default_rng(seed)
    rho = math.sin(math.pi * tau / 2)  # tau of a Gaussian copula is 2/pi asin(rho)
    score = rng.normal(size=n)
    log_length = 5.0 + rho * score + math.sqrt(1 - rho * rho) * rng.normal(size=n)
    spread = math.sqrt(1 - rho * rho)
    out = []
    for i in range(n):
        tokens = max(1, round(math.exp(log_length[i])))
        reason = FinishReason.STOP
        if limit is not None and tokens >= limit:
            tokens, reason = limit, FinishReason.LENGTH
        forecast = Forecast(
            float(score[i]),
            tuple(math.exp(5.0 + rho * score[i] + spread * z) for z in Z),
            "ranker",
            version,
        )
        arrival = 1_700_000_000.0 + start + i
        out.append(
            Outcome(
                request_id=f"{served_model}-{version}-{seed}-{start + i}",
                served_model=served_model,
                output_tokens=tokens,
                finish_reason=reason,
                arrival=arrival,
                finished=arrival + tokens / 50.0,
                prompt_tokens=20,
                forecast=forecast if scored else None,
            )
        )
    return out


def sketched(
    outcomes: Sequence[Outcome], seed: int, shift: float = 0.0, axes: int = 8
) -> list[Outcome]:
    """The same outcomes, with sketches of which the first number has mean ``shift``."""
    rows = np.random.default_rng(seed).normal(size=(len(outcomes), axes))
    rows[:, 0] += shift
    made = []
    for o, row in zip(outcomes, rows.astype(np.float32).tolist(), strict=True):
        assert o.forecast is not None
        made.append(replace(o, forecast=replace(o.forecast, sketch=tuple(row))))
    return made


@pytest.fixture
def stream() -> Callable[..., list[Outcome]]:
    return make_stream
