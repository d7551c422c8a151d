"""Virtual token counters: who has been served least, for its weight, goes first."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field

from engine.core.budgets import Budget


@dataclass(frozen=True, slots=True)
class FairnessConfig:
    """Fairness between tenants (Sheng et al. 2024, OSDI, arXiv 2401.00588).

    input_weight, output_weight: what a prompt token and an output token count as service; the
    paper's 1 and 2.
    weights: share of a tenant relative to others; 1 for those not named.
    budgets, default_budget: hard bounds on tokens per second of tenants named, and of the others;
    None: unlimited.
    counters: whether to keep counters at all; without them budgets alone are enforced.
    credit: weighted tokens, over its weight, that a tenant may be behind the others when it
    returns: a burst of so much goes ahead of a flood. 0, the paper's lift, evens out all use below
    a tenant's share at once, and its bursts queue behind its own share.
    expected_output: tokens that a request without a forecast is charged until one has ended.

    Raises ``ValueError`` naming the field.
    """

    input_weight: float = 1.0
    output_weight: float = 2.0
    weights: Mapping[str, float] = field(default_factory=dict)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    default_budget: Budget | None = None
    counters: bool = True
    credit: float = 0.0
    expected_output: float = 128.0

    def __post_init__(self) -> None:
        for name in ("input_weight", "output_weight", "credit", "expected_output"):
            value = getattr(self, name)
            if not (value >= 0.0 and math.isfinite(value)):
                raise ValueError(f"fairness.{name} must be finite and at least 0, got {value}")
        if self.input_weight == self.output_weight == 0.0:
            raise ValueError("fairness: input_weight and output_weight must not both be 0")
        for tenant, weight in self.weights.items():
            if not (weight > 0.0 and math.isfinite(weight)):
                raise ValueError(
                    f"fairness.weights[{tenant!r}] must be finite and above 0, got {weight}"
                )

    def weight(self, tenant: str) -> float:
        return self.weights.get(tenant, 1.0)

    def budget(self, tenant: str) -> Budget | None:
        return self.budgets.get(tenant, self.default_budget)

    @property
    def limits(self) -> bool:
        """Whether anybody has a budget."""
        return bool(self.budgets) or self.default_budget is not None


class VirtualCounters:
    """Service that each name (a tenant, or a lane) was charged, divided by its weight.

    While names keep waiting, serving the smallest counter keeps their counters, hence their
    service for their weight, within one charge of each other. A name that had nobody waiting is
    lifted when it returns, as in the paper: idleness earns no credit, or at most ``credit``, by
    which unfairness is bounded then.
    """

    def __init__(self, weight: Callable[[str], float], credit: float = 0.0) -> None:
        self._weight = weight
        self._credit = credit
        self._values: dict[str, float] = {}
        self._last: str | None = None
        self._prune_at = 1024

    def __len__(self) -> int:
        return len(self._values)

    def value(self, name: str) -> float:
        """Weighted service, 0 for a name never heard of."""
        return self._values.get(name, 0.0)

    def charge(self, name: str, service: float) -> None:
        """Count service; a negative number gives back what was charged too much."""
        self._values[name] = self.value(name) + service / self._weight(name)

    def lift(self, name: str, least: float | None) -> None:
        """A name returns. ``least``: smallest counter of those that can be served, None: nobody.

        With nobody there the name that stopped waiting last says how far the others had come.
        """
        floor = (least if least is not None else self.floor) - self._credit
        if floor > self.value(name):
            self._values[name] = floor

    def left(self, name: str) -> None:
        """A name has nobody waiting any more."""
        self._last = name

    @property
    def floor(self) -> float:
        """Counter of the name that stopped waiting last."""
        return 0.0 if self._last is None else self.value(self._last)

    @property
    def crowded(self) -> bool:
        """Whether it is time to :meth:`forget`, so that its cost is amortised."""
        return len(self._values) > self._prune_at

    def forget(self, least: float, keep: Container[str]) -> None:
        """Drop counters that a lift to ``least`` would exceed, but for those to ``keep``."""
        self._values = {
            name: value
            for name, value in self._values.items()
            if value > least - self._credit or name in keep or name == self._last
        }
        self._prune_at = 1024 + 2 * len(self._values)
