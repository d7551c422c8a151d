"""Lanes: classes of requests with a policy, a share and an objective of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.core.policies.base import Policy


@dataclass(frozen=True, slots=True)
class Slo:
    """Service-level objective of each request, in seconds; ``None``: no bound.

    ttft: time to first token. tpot: time per output token after the first. e2el: end-to-end.
    """

    ttft: float | None = None
    tpot: float | None = None
    e2el: float | None = None

    def __post_init__(self) -> None:
        for name in ("ttft", "tpot", "e2el"):
            value = getattr(self, name)
            if value is not None and not value > 0.0:
                raise ValueError(f"slo.{name} must be above 0 seconds, got {value}")

    def met(self, ttft: float, tpot: float | None, e2el: float) -> bool:
        """Whether a request with these times met it. ``tpot`` is None for a one-token answer."""
        return (
            (self.ttft is None or ttft <= self.ttft)
            and (self.tpot is None or tpot is None or tpot <= self.tpot)
            and (self.e2el is None or e2el <= self.e2el)
        )


@dataclass(frozen=True, slots=True)
class LaneConfig:
    """One lane.

    share: of the engine's service, relative to other busy lanes of its precedence; what a lane
    leaves unused is lent to the others.
    precedence: lanes of a lower number are served first, strictly.
    max_wait: seconds after which a waiting request goes before everybody who is not overdue too.
    When a whole backlog is overdue the order is first come, first served: it bounds starvation,
    it does not create capacity.
    max_waiting: requests that may wait in this lane; one more is refused.
    reclaim: take slots back from lanes that run more than their share.

    Raises ``ValueError`` naming the field.
    """

    name: str
    share: float = 1.0
    precedence: int = 0
    max_wait: float | None = None
    max_waiting: int | None = None
    reclaim: bool = False
    slo: Slo = field(default_factory=Slo)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("lane.name must not be empty: a request's lane '' is the first lane")
        where = f"lane {self.name!r}"
        if not (self.share > 0.0 and math.isfinite(self.share)):
            raise ValueError(f"{where}: share must be a finite number above 0, got {self.share}")
        if self.max_wait is not None and not self.max_wait > 0.0:
            raise ValueError(f"{where}: max_wait must be above 0 seconds, got {self.max_wait}")
        if self.max_waiting is not None and self.max_waiting < 1:
            raise ValueError(f"{where}: max_waiting must be at least 1, got {self.max_waiting}")


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane and the policy that orders its requests. Policies learn: one object per lane."""

    config: LaneConfig
    policy: Policy

    @property
    def name(self) -> str:
        return self.config.name


def max_min(total: float, demands: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Divide ``total`` by weight, nobody above its demand, what it leaves to the others.

    Weighted max-min fairness by progressive filling (Bertsekas & Gallager, Data Networks).
    """
    given = [0.0] * len(demands)
    left = total
    # Whoever asks least for its weight is satisfied first, so one pass in that order is enough.
    hungry = sorted(range(len(demands)), key=lambda i: demands[i] / weights[i])
    weight = sum(weights)
    for i in hungry:
        given[i] = min(demands[i], left * weights[i] / weight)
        left -= given[i]
        weight -= weights[i]
    return given
