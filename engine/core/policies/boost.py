"""Learned gamma-Boost behind an express tier: the default policy.

gamma-Boost (Yu & Scully 2024, arXiv 2404.08826) orders by arrival minus a boost,
``b = (1/gamma)·ln(M/(M − 1))`` with ``M = E[exp(gamma·S) | label]``: S is the work of a request,
the label what is known of it. Here the label is the forecast. gamma → 0 orders as shortest job
first, gamma → ∞ as first come, first served.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from engine.core.backlog import Backlog
from engine.core.costs import CostModel
from engine.core.policies.base import Key, Static
from engine.core.policies.experience import Experience, log_mean_exp
from engine.core.policies.population import Population
from engine.core.request import Request
from ranker.types import FinishReason, Forecast


class Setting(StrEnum):
    """How much tail an operator lends to the mean."""

    SAFE = "safe"  #: a 2 % express tier, FCFS behind it
    FAST = "fast"  #: a 12 % express tier, boost behind it


@dataclass(frozen=True, slots=True)
class BoostConfig:
    """Parameters of the policy.

    tier: share of all work that the predicted-shortest requests may hold and still go first; its
    cost to everyone else's p99 is about ``tier·rho/(1 − tier·rho)`` at utilisation rho.
    k: ``gamma = k / backlog``; 4 is fast, 8 cautious; None leaves FCFS behind the tier.
    floor: seconds, the least backlog that gamma is computed from.
    cold: seconds, the least backlog while too few outcomes are known to rely on them. A first
    burst is all there before anything of it could be measured; with the floor alone it would be
    ordered almost first come, first served.
    window: seconds of arrivals that the backlog's p99 looks back on.
    memory: outcomes and arrivals remembered. bins, least: outcome bins at most, outcomes per bin
    at least. prior: outcomes that the forecast's own quantiles count for when averaged with a bin.

    Raises ``ValueError`` naming the field.
    """

    tier: float
    k: float | None
    floor: float = 5.0
    cold: float = 20.0
    window: float = 1800.0
    memory: int = 2048
    bins: int = 40
    least: int = 25
    prior: float = 25.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.tier < 1.0:
            raise ValueError(f"tier must be a share of work in [0, 1), got {self.tier}")
        for name in ("k", "floor", "cold", "window", "prior"):
            value = getattr(self, name)
            if value is not None and not value > 0.0:
                raise ValueError(f"{name} must be above 0, got {value}")
        for name in ("memory", "bins", "least"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    @classmethod
    def of(cls, setting: Setting | str) -> BoostConfig:
        """The published settings. Raises ``ValueError`` on an unknown one."""
        if setting not in list(Setting):
            raise ValueError(f"setting must be safe or fast, got {setting!r}")
        if setting == Setting.SAFE:
            return cls(tier=0.02, k=None)
        return cls(tier=0.12, k=4.0)


class Boost(Static):
    """See the module. Requests without a forecast get no boost: their order is FCFS.

    A forecast that says the same of every request is none either: while the remembered arrivals
    carry one and the same distribution, the order is FCFS although their prompts differ.
    """

    name = "boost"

    def __init__(self, config: BoostConfig, cost: CostModel, batch: int) -> None:
        """``batch``: requests per step when the engine is busy; it shares out a step's cost."""
        if batch < 1:
            raise ValueError(f"batch must be at least 1 request, got {batch}")
        self.config = config
        self._cost = cost
        self._batch = batch
        self._backlog = Backlog(config.window)
        self._experience = Experience(config.memory, config.bins, config.least)
        self._population = Population(config.memory)
        self._ranker: tuple[str, str] | None = None
        self._said: tuple[float, ...] = ()
        self._repeats = 0

    @property
    def gamma(self) -> float:
        """Per second; infinite (FCFS) without a boost behind the tier."""
        if self.config.k is None:
            return math.inf
        least = self.config.floor if self._measured else self.config.cold
        return self.config.k / max(least, self._backlog.value)

    @property
    def _measured(self) -> bool:
        """Whether enough outcomes are known to rely on them rather than on forecasts."""
        return len(self._experience) >= 4 * self.config.least

    def arrived(self, request: Request) -> None:
        forecast = request.forecast
        if forecast is None:
            return
        if self._ranker != (forecast.ranker, forecast.version):
            # Another ranker's labels mean other things; realised work in seconds does not.
            self._ranker = (forecast.ranker, forecast.version)
            self._experience.clear()
            self._population.clear()
            self._repeats = self.config.memory
        elif forecast.quantiles != self._said:
            self._repeats = 0
        else:
            self._repeats += 1
        self._said = forecast.quantiles
        self._population.add(self._label(request, forecast), request)

    def key(self, request: Request) -> Key:
        """``(0, label)`` inside the tier, ``(1, boosted arrival)`` behind it."""
        forecast = request.forecast
        if forecast is None or self._repeats >= self.config.memory:
            return (1.0, request.arrival)
        label = self._label(request, forecast)
        if label <= self._tier_label():
            return (0.0, label)
        return (1.0, request.arrival - self.boost(request))

    def observe(self, request: Request, now: float) -> None:
        if request.finish_reason is FinishReason.ABORT and request.first_scheduled is None:
            return  # it left the queue before the engine worked for it
        work = self._cost.work(request.prompt_tokens, request.output_tokens, self._batch)
        self._backlog.add(request.arrival, work)
        forecast = request.forecast
        # A length cut by a limit is the whole work; an abort or a failure is a part of it.
        whole = request.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
        if forecast is None or not whole or self._ranker != (forecast.ranker, forecast.version):
            return
        self._experience.add(self._label(request, forecast), work)

    def boost(self, request: Request) -> float:
        """Seconds that a request moves ahead of its arrival, relative to the longest class.

        Without that reference all boosts would grow when gamma falls, and later arrivals would
        overtake earlier ones of the same length.
        """
        gamma = self.gamma
        if request.forecast is None or math.isinf(gamma):
            return 0.0
        longest = self._population.longest
        reference = 0.0 if longest is None else self._raw_boost(longest, gamma)
        return max(0.0, self._raw_boost(request, gamma) - reference)

    def _raw_boost(self, request: Request, gamma: float) -> float:
        assert request.forecast is not None
        exponents: list[float] = []
        weights: list[float] = []
        for mass, tokens in request.forecast.cells():
            weights.append(mass)
            work = self._cost.work(request.prompt_tokens, tokens, self._batch)
            exponents.append(gamma * work)
        log_m = log_mean_exp(exponents, weights)
        known = self._experience.bin_of(self._label(request, request.forecast), gamma)
        if known is not None:
            total = self.config.prior + known.count
            shares = [self.config.prior / total, known.count / total]
            log_m = log_mean_exp([log_m, known.log_m], shares)
        # ln(M / (M − 1)) = −ln(1 − exp(−ln M))
        return -math.log(-math.expm1(-max(log_m, 1e-12))) / gamma

    def _label(self, request: Request, forecast: Forecast) -> float:
        return self._cost.work(request.prompt_tokens, forecast.mean, self._batch)

    def _tier_label(self) -> float:
        if self.config.tier == 0.0:
            return -math.inf
        if self._measured:
            return self._experience.threshold(self.config.tier)
        return self._population.threshold(self.config.tier)
