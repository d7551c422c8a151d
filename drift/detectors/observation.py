"""What a detector sees of one outcome: numbers of the forecast and of what came of it."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class Observation:
    """One scored outcome, in arrival order.

    ``score``: the forecast's, higher = longer. ``tokens``: realised, a lower bound when
    ``censored``. ``pit``: probability that the forecast gave to an answer this short, in [0, 1];
    even on [0, 1] when forecasts are calibrated. ``log_error``: distance of ln tokens from the ln
    of the median forecast.
    ``prompt_tokens``: 0 when unknown.
    """

    score: float
    tokens: int
    censored: bool
    pit: float
    log_error: float
    prompt_tokens: int = 0

    @classmethod
    def of(cls, outcome: Outcome) -> Observation | None:
        """``None`` for a request that had no forecast."""
        forecast = outcome.forecast
        if forecast is None:
            return None
        tokens, censored = outcome.output_tokens, outcome.finish_reason.censored
        return cls(
            forecast.score,
            tokens,
            censored,
            pit(forecast.quantiles, forecast.levels, tokens, censored),
            log_error(forecast.median, tokens),
            outcome.prompt_tokens,
        )


def pit(
    quantiles: Sequence[float], levels: Sequence[float], tokens: float, censored: bool
) -> float:
    """Probability integral transform of a length under a forecast, in [0, 1].

    Linear between levels; below the first it falls to 0 with the length, above the last the rest
    shrinks with its inverse. The mean over a run of equal quantiles. A lower bound u says that the
    transform is above u, so it counts as the middle of what is left, (1 + u) / 2 (A. P. Dawid,
    "Statistical theory: the prequential approach", JRSS A 147, 1984, for the transform).
    """
    low, high = bisect_left(quantiles, tokens), bisect_right(quantiles, tokens)
    u = (_at(quantiles, levels, tokens, low) + _at(quantiles, levels, tokens, high)) / 2.0
    return (1.0 + u) / 2.0 if censored else u


def _at(quantiles: Sequence[float], levels: Sequence[float], tokens: float, place: int) -> float:
    if place == 0:
        return levels[0] * tokens / quantiles[0] if quantiles[0] > 0.0 else 0.0
    if place == len(quantiles):
        last = quantiles[-1] / tokens if tokens > 0.0 else 1.0
        return 1.0 - (1.0 - levels[-1]) * last
    below, above = quantiles[place - 1], quantiles[place]
    share = (tokens - below) / (above - below)
    return levels[place - 1] + share * (levels[place] - levels[place - 1])


def log_error(median: float, tokens: float) -> float:
    """Distance in logs, of tokens + 1 and median + 1: what a mean absolute error averages."""
    return abs(math.log((tokens + 1.0) / (median + 1.0)))
