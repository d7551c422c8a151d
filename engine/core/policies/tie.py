"""Tail-inflated expectation: the expected length, and more for a long tail."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.core import remaining
from engine.core.policies.base import Key, Static
from engine.core.policies.size import Size
from engine.core.request import Request


@dataclass(frozen=True, slots=True)
class TieConfig:
    """beta: weight of the tail; None: ``clip(0.1 · waiting / batch, 0.1, 0.5)`` as in the paper.
    alpha: where the tail begins, a probability. decay, every: a score shrinks to ``decay`` of
    itself in each ``every`` seconds since arrival; decay 1: never.

    Raises ``ValueError`` naming the field.
    """

    beta: float | None = None
    alpha: float = 0.9
    decay: float = 0.9
    every: float = 30.0

    def __post_init__(self) -> None:
        if self.beta is not None and not 0.0 <= self.beta < math.inf:
            raise ValueError(f"beta must be at least 0 and finite, got {self.beta}")
        if not 0.0 < self.alpha < 1.0:
            raise ValueError(f"alpha must lie in (0, 1), got {self.alpha}")
        if not 0.0 < self.decay <= 1.0:
            raise ValueError(f"decay must lie in (0, 1], got {self.decay}")
        if not self.every > 0.0:
            raise ValueError(f"every must be above 0 seconds, got {self.every}")


class Tie(Static):
    """Lowest ``E[X] + beta · CVaR_alpha[X]`` first, X the work of a request ("Scheduling LLM
    Inference with Uncertainty-Aware Output Length Predictions", Zheng et al. 2026,
    arXiv 2604.00499, equation 11). The paper fits a log-t distribution, here the forecast's
    quantiles are read.

    Its ageing, ``score · decay^(wait / every)``, needs no clock and no re-sort: its logarithm is
    ``ln(score) + rate · arrival − rate · now`` with ``rate = −ln(decay) / every``, and the last
    term is the same for all, so the static key ``ln(score) + rate · arrival`` gives the exact
    order at any time, where the authors sort anew every five seconds.

    beta is set when a request is keyed. Waiting requests are those that arrived and have not ended
    beyond a full batch. Requests without a forecast go first, in order of arrival.
    """

    name = "tie"

    def __init__(self, config: TieConfig | None = None, size: Size | None = None) -> None:
        self.config = config or TieConfig()
        self._size = size or Size()
        self._rate = -math.log(self.config.decay) / self.config.every
        self._present: set[str] = set()

    def arrived(self, request: Request) -> None:
        self._present.add(request.id)

    def key(self, request: Request) -> Key:
        forecast = request.trusted
        if forecast is None:
            return (-math.inf, request.arrival)
        tail = remaining.mean_above(forecast, self.config.alpha)
        score = self._size.whole(request, remaining.mean_above(forecast, 0.0))
        score += self.beta * self._size.whole(request, tail)
        return (math.log(score) + self._rate * request.arrival, request.arrival)

    def observe(self, request: Request, now: float) -> None:
        self._present.discard(request.id)

    @property
    def beta(self) -> float:
        """The weight in force."""
        if self.config.beta is not None:
            return self.config.beta
        waiting = max(0, len(self._present) - self._size.batch)
        return min(0.5, max(0.1, 0.1 * waiting / self._size.batch))
