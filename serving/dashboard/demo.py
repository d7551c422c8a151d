"""Traffic for looking at the dashboard: drawn at random, weighed by the real monitor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from ranker.types import LEVELS, FinishReason, Forecast, Outcome

_Z = [NormalDist().inv_cdf(level) for level in LEVELS]


@dataclass(frozen=True, slots=True)
class DemoConfig:
    """``good`` outcomes of tau-b ``tau``, then ``bad`` ones for which it is ``bad_tau`` with the
    tenant ``hurt``, and after these the same for everybody. ``gap``: seconds between arrivals.
    """

    good: int = 1500
    bad: int = 900
    tau: float = 0.55
    bad_tau: float = 0.05
    gap: float = 1.1
    hurt: str = "acme"
    seed: int = 20261130

    def __post_init__(self) -> None:
        for name in ("good", "bad"):
            if getattr(self, name) < 1:
                raise ValueError(f"demo.{name} must be >= 1, got {getattr(self, name)}")
        for name in ("tau", "bad_tau"):
            if not -1.0 < getattr(self, name) < 1.0:
                raise ValueError(f"demo.{name} must lie inside (-1, 1), got {getattr(self, name)}")
        if not 0.0 < self.gap < math.inf:
            raise ValueError(f"demo.gap must be > 0 and finite, got {self.gap}")


#: Tenants with their lanes and shares of the traffic.
_SHARES = (("acme", "chat", 0.3), ("globex", "chat", 0.4), ("globex", "batch", 0.2),
           ("initech", "chat", 0.1))  # fmt: skip


def demo_traffic(config: DemoConfig, start: float) -> Iterator[Outcome]:
    """Outcomes without end in order of arrival, the first at Unix second ``start``.

    Log lengths and scores are normal. Requests wait as they do at one server with eight slots that
    is nearly full, so that there is something to save. No text is involved.
    """
    rng = np.random.default_rng(config.seed)
    slots = np.full(8, start)
    arrival, number = start, 0
    while True:
        tenant, lane, _ = _SHARES[int(rng.choice(len(_SHARES), p=[s for *_, s in _SHARES]))]
        spoilt = number >= config.good and (
            tenant == config.hurt or number >= config.good + config.bad
        )
        rho = math.sin(math.pi * (config.bad_tau if spoilt else config.tau) / 2.0)
        usual = math.sin(math.pi * config.tau / 2.0)  # what the forecasts believe of themselves
        score = float(rng.normal())
        length = 4.8 + rho * score + math.sqrt(1.0 - rho * rho) * float(rng.normal())
        tokens = max(1, round(math.exp(length)))
        spread = math.sqrt(1.0 - usual * usual)
        quantiles = tuple(math.exp(4.8 + usual * score + spread * z) for z in _Z)
        scored = rng.random() > 0.02
        cut = tokens > 2048
        slot = int(np.argmin(slots))
        began = max(arrival, float(slots[slot]))
        slots[slot] = began + min(tokens, 2048) / 24.0
        yield Outcome(
            request_id=f"demo-{number}",
            served_model="demo-model",
            output_tokens=min(tokens, 2048),
            finish_reason=FinishReason.LENGTH if cut else FinishReason.STOP,
            arrival=arrival,
            finished=float(slots[slot]),
            prompt_tokens=max(1, round(math.exp(3.5 + 0.8 * float(rng.normal())))),
            forecast=Forecast(score, quantiles, "demo-ranker", "1") if scored else None,
            tenant=tenant,
            lane=lane,
        )
        number += 1
        arrival += float(rng.exponential(config.gap))
