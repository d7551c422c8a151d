"""Does a reporter leave out the long ones? Its lengths against what its own forecasts say."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from ranker.types import Forecast, Outcome

#: So many outcomes must be missing beyond the longest before it is said: by chance that happens
#: with probability exp(-12), six in a million.
MISSING = 12.0


def beyond(forecast: Forecast, tokens: float) -> float:
    """Probability of more than ``tokens``, linear between quantiles.

    0 beyond the last: a forecast that knows nothing of its tail must accuse nobody.
    """
    quantiles, levels = forecast.quantiles, forecast.levels
    if tokens >= quantiles[-1]:
        return 0.0
    i = bisect_left(quantiles, tokens)
    if i == 0:
        return 1.0 - levels[0]
    low, high = quantiles[i - 1], quantiles[i]
    share = (tokens - low) / (high - low) if high > low else 1.0
    return 1.0 - (levels[i - 1] + share * (levels[i] - levels[i - 1]))


def cut(outcomes: Sequence[Outcome]) -> tuple[int, float] | None:
    """The length beyond which none was reported, and how many the forecasts expect there.

    ``None`` when too few are expected to say so, or when that length is a lower bound: a token
    limit cuts answers, not reports. Answers that all became shorter look alike, so it is a hint and
    no verdict; ``drift.survivors`` tells the two apart.
    """
    scored = [(o, o.forecast) for o in outcomes if o.forecast is not None]
    if not scored:
        return None
    longest = max(o.output_tokens for o, _ in scored)
    if any(o.finish_reason.censored and o.output_tokens >= 0.9 * longest for o, _ in scored):
        return None
    expected = sum(beyond(forecast, longest) for _, forecast in scored)
    return (longest, expected) if expected >= MISSING else None
