"""Hard token budgets per tenant: token buckets that may go into debt."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """rate: tokens per second, prompt and output together, unweighted. burst: tokens at most saved.

    A tenant may start a request while it owes nothing, whatever its length; the debt it then has
    is paid off at ``rate``. Over any time t it starts at most ``rate·t + burst`` plus one request,
    by what answers are forecast to take; what they take more is a debt once they ended.
    """

    rate: float
    burst: float

    def __post_init__(self) -> None:
        for name in ("rate", "burst"):
            value = getattr(self, name)
            if not (value > 0.0 and math.isfinite(value)):
                raise ValueError(f"budget.{name} must be finite tokens above 0, got {value}")


class Buckets:
    """One bucket per tenant, each kept as the time at which its level is zero.

    Level(t) = min(burst, rate·(t − zero)): the virtual scheduling form of the generic cell rate
    algorithm (ITU-T I.371), which needs no refilling.
    """

    def __init__(self, budget: Callable[[str], Budget | None]) -> None:
        """``budget``: of each tenant; None: unlimited."""
        self._budget = budget
        self._zero: dict[str, float] = {}
        self._prune_at = 1024

    def __len__(self) -> int:
        return len(self._zero)

    def ready_at(self, tenant: str) -> float:
        """Seconds at which it owes nothing; its requests may start from then on."""
        return self._zero.get(tenant, -math.inf)

    def level(self, tenant: str, now: float) -> float:
        """Tokens it has saved, negative when it owes; infinite without a budget."""
        budget = self._budget(tenant)
        if budget is None:
            return math.inf
        return min(budget.burst, budget.rate * (now - self.ready_at(tenant)))

    def charge(self, tenant: str, tokens: float, now: float) -> None:
        """Take tokens out; a negative number gives them back."""
        budget = self._budget(tenant)
        if budget is None:
            return
        full = now - budget.burst / budget.rate
        self._zero[tenant] = max(full, self.ready_at(tenant)) + tokens / budget.rate
        if len(self._zero) > self._prune_at:
            self._prune(now)

    def _prune(self, now: float) -> None:
        """Forget full buckets: they are as new."""
        for tenant, zero in list(self._zero.items()):
            budget = self._budget(tenant)
            if budget is None or zero <= now - budget.burst / budget.rate:
                del self._zero[tenant]
        self._prune_at = 1024 + 2 * len(self._zero)
