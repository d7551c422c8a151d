"""Learned boost behind an express tier, with bounded patience: the default policy.

Three parts, each of which can be switched off:

- An *express tier*: the requests that look shortest and together hold a chosen share F of the work
  go first. Its cost to everybody else's tail is about F·rho/(1 − F·rho).
- The order behind it: boosted arrival, ``arrival − b`` with ``b = (1/gamma)·ln(M/(M − 1))`` and
  ``M = E[exp(gamma·S) | label]``, S the work of a request (gamma-Boost, Yu & Scully 2024, arXiv
  2404.08826). gamma → 0 orders as shortest first, gamma → ∞ as first come, first served.
- *Patience*: whoever has waited for so long that it may end later than the latest would have under
  FCFS is overdue and goes before all but the tier, in order of arrival. While the queue is short,
  the order is free to favour the short; when it is as long as it ever gets, it is FCFS again.

A forecast's ``trust`` scales all three for its request: the share of the tier it may be in, 1/gamma
and patience; its label moves towards the middle one. With trust 1 nothing changes; with trust 0 the
request goes as one without a forecast does: those by arrival, and in the middle of the others.
"""

from __future__ import annotations

import math
from dataclasses import replace

from engine.core.backlog import Backlog
from engine.core.costs import CostModel
from engine.core.policies.base import Key, Starvation, Static
from engine.core.policies.boost_config import BoostConfig, Setting
from engine.core.policies.experience import Experience, log_mean_exp, raw_boost
from engine.core.policies.label import Known, known, weighed
from engine.core.policies.mlfq import Mlfq
from engine.core.policies.population import Population
from engine.core.policies.tier_guard import TierGuard
from engine.core.policies.unscored import Unscored
from engine.core.request import Request, Status
from ranker.types import FinishReason, Forecast

__all__ = ["EXPRESS", "Boost", "BoostConfig", "Setting"]

#: Milliseconds between the priorities of the tier and those of all others; see Boost.priority.
EXPRESS = 2**30

#: Steps in which trust counts for the tier, rounded down: each has a threshold of its own.
_STEPS = 16


class Boost(Static):
    """See the module. A request without a forecast is one of which nothing is known: it has no
    boost, and among labels the middle one, at which such requests go by arrival.

    A forecast that says the same of every request is none either: while the remembered arrivals
    carry one and the same distribution, the order is FCFS although their prompts differ. One of
    trust 0 is not remembered either: neither its label nor what became of it.
    """

    name = "boost"

    def __init__(self, config: BoostConfig, cost: CostModel, batch: int) -> None:
        """``batch``: requests per step when the engine is busy; it shares out a step's cost."""
        if batch < 1:
            raise ValueError(f"batch must be at least 1 request, got {batch}")
        self.config = config
        self._cost = cost
        self._batch = batch
        self._backlog = Backlog(config.window, batch)
        self._experience = Experience(config.memory, config.bins, config.least)
        self._guard = TierGuard()
        self._population = Population(config.memory)
        self._known: dict[str, Known] = {}
        self._unscored = Unscored()
        self._overdue: set[str] = set()
        self._ranker: tuple[str, str] | None = None
        self._said: tuple[float, ...] = ()
        self._repeats = 0
        self._levels = Mlfq(None, cost, batch) if config.mlfq else None
        self.preempts = config.mlfq
        #: Patience as it is now; a request keeps what it was given when it began to wait.
        self.starvation = self._patience()

    @property
    def wait(self) -> float:
        """Seconds that FCFS would have kept all but one in a hundred waiting at most."""
        least = self.config.floor if self._measured else self.config.cold
        return max(least, self._backlog.value)

    @property
    def slack(self) -> float:
        """Seconds that anybody could wait without ending later than the latest under FCFS."""
        least = self.config.floor if self._measured else self.config.cold_slack
        return max(least, self._backlog.slack)

    @property
    def gamma(self) -> float:
        """Per second; infinite (FCFS) without a boost behind the tier."""
        return math.inf if self.config.k is None else self.config.k / self.wait

    @property
    def _measured(self) -> bool:
        """Whether enough outcomes are known to rely on them rather than on forecasts."""
        return len(self._experience) >= 4 * self.config.least

    def arrived(self, request: Request) -> None:
        forecast = weighed(request)
        if forecast is not None:
            self._know(request, forecast)
            self._unscored.forget(request)
        else:
            self._known.pop(request.id, None)  # trust fell while it waited

    def key(self, request: Request) -> Key:
        """``(0, label)`` inside the tier, ``(1, arrival)`` when overdue, ``(2, …)`` behind:
        label, arrival, or boosted arrival. With ``mlfq`` one that runs by a forecast has
        ``(-1, arrival)``: nobody takes its slot."""
        shortest_first = self.config.k == 0.0
        forecast = weighed(request)
        if self._levels is not None:
            if forecast is None and request.id not in self._overdue:
                return (2.0, self._attained(request, self._levels))
            if request.status is Status.RUNNING:
                return (-1.0, request.arrival)
        seen = None if forecast is None else self._know(request, forecast)
        if seen is not None and self._repeats >= self.config.memory:
            # Not the label: it would order by prompts what the forecast calls alike.
            return (2.0, seen.length if shortest_first else request.arrival)
        if request.id in self._overdue:
            return (1.0, request.arrival)
        if seen is None and shortest_first:
            return (2.0, self._unscored.place(request, self._population.middle))
        if seen is None:
            return (2.0, request.arrival)
        if self._is_express(seen):
            return (0.0, seen.label)
        if shortest_first:
            return (2.0, self._population.towards_middle(seen.label, seen.forecast.trust))
        return (2.0, request.arrival - self.boost(request))

    def rekey_after(self, request: Request) -> int | None:
        if self._levels is None or weighed(request) is not None:
            return None
        return self._levels.rekey_after(request)

    def patience(self, request: Request) -> Starvation | None:
        forecast = weighed(request)
        if self.starvation is None or self.starvation.seconds is None:
            return self.starvation
        if forecast is None:
            if self.config.k != 0.0 or self._levels is not None:
                return self.starvation
            return Starvation(seconds=self._unscored.patience(request, self.starvation.seconds))
        return Starvation(seconds=self.starvation.seconds * max(forecast.trust, 1e-6))

    def starved(self, request: Request) -> None:
        self._overdue.add(request.id)

    def observe(self, request: Request, now: float) -> None:
        self._overdue.discard(request.id)
        self._unscored.forget(request)
        if self._levels is not None:
            self._levels.observe(request, now)
        seen = self._known.pop(request.id, None)
        if request.finish_reason is FinishReason.ABORT and request.first_scheduled is None:
            return  # it left the queue before the engine worked for it
        work = self._cost.work(request.prompt_tokens, request.output_tokens, self._batch)
        waits_changed = self._backlog.add(request.arrival, work)
        # A length cut by a limit is the whole work; an abort or a failure is a part of it.
        whole = request.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
        if seen is not None and whole and seen.ranker == self._ranker:
            self._experience.add(seen.label, work)
            self._guard.add(seen.label, work)
        if waits_changed or not self._measured:
            self.starvation = self._patience()

    def boost(self, request: Request) -> float:
        """Seconds that a request moves ahead of its arrival, relative to the longest class.

        Without that reference all boosts would grow when gamma falls, and later arrivals would
        overtake earlier ones of the same length. 0 without a boost behind the tier, where order is
        of arrival or of labels.
        """
        gamma, forecast = self.gamma, weighed(request)
        if forecast is None or not 0.0 < gamma < math.inf:
            return 0.0
        own = self._log_m(self._know(request, forecast), gamma)
        return self._ahead(own, gamma, forecast.trust)

    def priority(self, request: Request, epoch: float = 0.0) -> int:
        """The same order as one number for engines that take a priority, lower first (vLLM).

        Milliseconds of boosted arrival after ``epoch`` (the caller's clock, seconds), and
        ``EXPRESS`` less in the tier, in order of arrival there. Such engines cannot be told when
        patience runs out, so with ``k`` 0 the order behind the tier is that of arrival: shortest
        first would have no bound. Within int32 while all arrivals lie less than 2^30 ms (12 days)
        from ``epoch``, within 2^53 always: renew the epoch when the engine's queue is empty.
        """
        boosted = request.arrival - epoch - self.boost(request)
        forecast = weighed(request)
        if forecast is not None:
            seen = self._know(request, forecast)
            if self._repeats >= self.config.memory:
                boosted = request.arrival - epoch
            elif self._is_express(seen):
                return round(1000.0 * (request.arrival - epoch)) - EXPRESS
        return round(1000.0 * boosted)

    def _patience(self) -> Starvation | None:
        share = self.config.patience
        return None if share is None else Starvation(seconds=share * self.slack)

    def _know(self, request: Request, forecast: Forecast) -> Known:
        seen = self._known.get(request.id)
        if seen is not None and seen.forecast is forecast:
            return seen
        if seen is not None and replace(forecast, trust=seen.forecast.trust) == seen.forecast:
            # Only trust changed: it says nothing new of the request, nor of how arrivals look.
            self._known[request.id] = seen = seen._replace(forecast=forecast)
            return seen
        seen = known(forecast, request.prompt_tokens, self._cost, self._batch, self.config.brevity)
        self._known[request.id] = seen
        if seen.ranker != self._ranker:
            # Another ranker's forecasts mean other things; realised work in seconds does not.
            self._ranker = seen.ranker
            self._experience.clear()
            self._guard.clear()
            self._population.clear()
            self._repeats = self.config.memory
        elif forecast.quantiles == self._said:
            self._repeats += 1
        else:
            self._repeats = 0
        self._said = forecast.quantiles
        self._population.add(seen)
        return seen

    def _is_express(self, seen: Known) -> bool:
        tier = self.config.tier * math.floor(seen.forecast.trust * _STEPS) / _STEPS
        if tier == 0.0:
            return False
        if not self._measured:
            return seen.label <= self._population.threshold(tier)
        return seen.label <= self._guard.limit(tier, self._experience.threshold(tier))

    def _attained(self, request: Request, levels: Mlfq) -> float:
        """The place of a request of which only its level is known, for what a whole quantum of that
        is worth: order by level, first come, first served within one while gamma stands."""
        if self.config.k is None:
            return request.arrival
        tokens = levels.tokens(request)
        work = self._cost.work(0, tokens, self._batch)
        if self.config.k == 0.0:
            return work * float(max(1.0, tokens) ** self.config.brevity)
        return request.arrival - self._ahead(self.gamma * work, self.gamma, 1.0)

    def _ahead(self, log_m: float, gamma: float, trust: float) -> float:
        """Seconds of boost for ``ln M``, beyond those of the longest class; never below 0."""
        longest = self._population.longest
        reference = 0.0
        if longest is not None:
            reference = raw_boost(self._log_m(longest, gamma), gamma, trust)
        return max(0.0, raw_boost(log_m, gamma, trust) - reference)

    def _log_m(self, seen: Known, gamma: float) -> float:
        """ln E[exp(gamma·S) | label]."""
        masses, exponents = [], []
        for mass, tokens in seen.forecast.cells():
            masses.append(mass)
            exponents.append(gamma * self._cost.work(seen.prompt_tokens, tokens, self._batch))
        log_m = log_mean_exp(exponents, masses)
        found = self._experience.bin_of(seen.label, gamma)
        if found is not None:
            total = self.config.prior + found.count
            shares = [self.config.prior / total, found.count / total]
            log_m = log_mean_exp([log_m, found.log_m], shares)
        return log_m
