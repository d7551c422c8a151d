"""Who was served how much while they competed: the measure of fairness between tenants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.metrics import jain


@dataclass(slots=True)
class _Tenant:
    weight: float
    waiting: int = 0
    backlogged: bool = False  #: has had somebody waiting since the window began
    flowing: int = 0  #: requests of its in the flow
    beat: int = 0  #: up to which they are counted
    served: float = 0.0  #: in this window


@dataclass(slots=True)
class Tenancy:
    """Jain's index over windows of ``window`` seconds, or a little more where no event falls.

    Service is ``input_weight·prompt + output_weight·output`` tokens (as the virtual token counter
    of Sheng et al., OSDI 2024, charges), when delivered, over the tenant's weight. Only tenants
    that had somebody waiting all through a window count in it: who asks for less than its share
    has no claim. Windows with fewer than two such tenants do not count.
    """

    window: float = 60.0
    input_weight: float = 1.0
    output_weight: float = 2.0
    weights: Mapping[str, float] = field(default_factory=dict)
    _tenants: dict[str, _Tenant] = field(default_factory=dict)
    _start: float = -math.inf
    _sum: float = 0.0
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        if not self.window > 0.0:
            raise ValueError(f"window must be above 0 seconds, got {self.window}")

    @property
    def index(self) -> float:
        """Mean over the windows, by their seconds; NaN when none counted."""
        return self._sum / self._seconds if self._seconds else math.nan

    def waits(self, tenant: str) -> None:
        """One more of its requests waits."""
        self._of(tenant).waiting += 1

    def runs(self, tenant: str) -> None:
        """One of its waiting requests began to run, or went away."""
        row = self._of(tenant)
        row.waiting -= 1
        row.backlogged = row.backlogged and row.waiting > 0

    def first_token(self, tenant: str, prompt_tokens: int) -> None:
        self._of(tenant).served += self.input_weight * prompt_tokens + self.output_weight

    def token(self, tenant: str, count: int = 1) -> None:
        """Output tokens outside of beats."""
        self._of(tenant).served += self.output_weight * count

    def joined(self, tenant: str, beat: int) -> None:
        """One of its requests gets a token with each beat after this one."""
        row = self._of(tenant)
        self._count(row, beat)
        row.flowing += 1

    def left(self, tenant: str, beat: int) -> None:
        """It got its last one with this beat."""
        row = self._of(tenant)
        self._count(row, beat)
        row.flowing -= 1

    def tick(self, now: float, beat: int) -> None:
        """Close the window if it is over."""
        if now < self._start + self.window:
            return
        rows = self._tenants.values()
        for row in rows:
            self._count(row, beat)
        competing = [row.served / row.weight for row in rows if row.backlogged]
        if len(competing) > 1 and any(competing):
            self._sum += jain(competing) * (now - self._start)
            self._seconds += now - self._start
        for row in rows:
            row.served = 0.0
            row.backlogged = row.waiting > 0
        self._start = now

    def _of(self, tenant: str) -> _Tenant:
        if tenant not in self._tenants:
            self._tenants[tenant] = _Tenant(self.weights.get(tenant, 1.0))
        return self._tenants[tenant]

    def _count(self, row: _Tenant, beat: int) -> None:
        row.served += self.output_weight * row.flowing * (beat - row.beat)
        row.beat = beat
