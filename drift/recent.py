"""The newest outcomes of a stream, and figures of them that are kept up to date as they come."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from drift.cohorts import tau_of
from drift.detectors.pair_window import PairWindow
from drift.detectors.sample import Bools, Floats
from drift.tau import Tau
from ranker.types import Outcome

#: Levels whose coverage is kept.
LEVELS = (0.5, 0.9)


class Recent:
    """At most ``most`` outcomes in arrival order. Adding one costs O(most) additions in arrays, a
    figure O(most) or O(most log most)."""

    def __init__(self, most: int, confidence: float = 0.95) -> None:
        self._most = most
        self._confidence = confidence
        self._outcomes: deque[Outcome] = deque()
        self._pairs = PairWindow(max(2, most))
        self._ratios: deque[tuple[float, float, bool]] = deque()
        self._censored = 0

    def __len__(self) -> int:
        return len(self._outcomes)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Oldest first."""
        return tuple(self._outcomes)

    @property
    def scored(self) -> int:
        return len(self._ratios)

    @property
    def unscored_share(self) -> float:
        """NaN when empty, like the other shares."""
        return 1.0 - self.scored / len(self) if len(self) else math.nan

    @property
    def censored_share(self) -> float:
        return self._censored / len(self) if len(self) else math.nan

    @property
    def full(self) -> bool:
        """Whether every place is taken by a scored outcome."""
        return self.scored == self._most

    def add(self, outcome: Outcome) -> None:
        if len(self._outcomes) == self._most:
            self._forget(self._outcomes.popleft())
        self._outcomes.append(outcome)
        censored = outcome.finish_reason.censored
        self._censored += censored
        forecast = outcome.forecast
        if forecast is not None:
            self._pairs.update(forecast.score, outcome.output_tokens, censored)
            low, high = (_ratio(outcome.output_tokens, forecast.quantile(p)) for p in LEVELS)
            self._ratios.append((low, high, censored))

    def tau(self) -> Tau:
        """tau-b of the scored ones."""
        return self._pairs.tau(self._confidence)

    def tau_since(self, count: int) -> Tau:
        """tau-b of the newest ``count`` scored ones, of all when there are not so many."""
        if count >= self.scored:
            return self.tau()
        scored = [o for o in self._outcomes if o.forecast is not None]
        return tau_of(scored[-count:], self._confidence)

    def coverage(self) -> tuple[float, float]:
        """Share of answers within their forecast median and p90, as
        :func:`drift.cohorts.coverage` has it."""
        if not self._ratios:
            return math.nan, math.nan
        rows = np.array(self._ratios, dtype=np.float64)
        censored = rows[:, 2] > 0.0
        low, high = (_within(rows[:, i], censored) for i in (0, 1))
        return low, high

    def _forget(self, outcome: Outcome) -> None:
        self._censored -= outcome.finish_reason.censored
        if outcome.forecast is not None:
            self._pairs.drop()
            self._ratios.popleft()


def _ratio(tokens: int, quantile: float) -> float:
    if tokens == 0:
        return 0.0
    return tokens / quantile if quantile > 0.0 else math.inf


def _within(ratios: Floats, censored: Bools) -> float:
    """The Kaplan-Meier curve of the ratios at 1; NaN when every one was cut off below it."""
    if np.all(censored & (ratios < 1.0)):
        return math.nan
    order = np.lexsort((censored, ratios))  # at equal ratios, realised lengths before bounds
    ended = ~censored[order] & (ratios[order] <= 1.0)
    left = len(ratios) - np.arange(len(ratios))
    return 1.0 - float(np.prod(1.0 - ended / left))
