"""Statistics of a cohort: outcomes of one served model and one ranker version, by arrival."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from drift.tau import Tau, kendall_tau
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class Cohort:
    """What ``outcomes`` consecutive arrivals say. Shares lie in [0, 1]; NaN when unknown.

    ``coverage_p50`` is the share of answers that stayed within their forecast median; 0.5 is right.
    """

    outcomes: int
    scored: int
    first_arrival: float
    last_arrival: float
    tau: Tau
    unscored_share: float
    censored_share: float
    coverage_p50: float
    coverage_p90: float


def measure(outcomes: Sequence[Outcome], confidence: float = 0.95) -> Cohort:
    """Statistics of ``outcomes``, given in arrival order."""
    scored = [o for o in outcomes if o.forecast is not None]
    count = len(outcomes)
    return Cohort(
        outcomes=count,
        scored=len(scored),
        first_arrival=outcomes[0].arrival if outcomes else math.nan,
        last_arrival=outcomes[-1].arrival if outcomes else math.nan,
        tau=tau_of(scored, confidence),
        unscored_share=(count - len(scored)) / count if count else math.nan,
        censored_share=(
            sum(o.finish_reason.censored for o in outcomes) / count if count else math.nan
        ),
        coverage_p50=coverage(scored, 0.5),
        coverage_p90=coverage(scored, 0.9),
    )


def tau_of(outcomes: Sequence[Outcome], confidence: float = 0.95) -> Tau:
    """tau-b of the scored ones among ``outcomes``."""
    scored = [(o.forecast.score, o) for o in outcomes if o.forecast is not None]
    return kendall_tau(
        [score for score, _ in scored],
        [o.output_tokens for _, o in scored],
        [o.finish_reason.censored for _, o in scored],
        confidence,
    )


def coverage(outcomes: Sequence[Outcome], level: float) -> float:
    """Share of answers at or below their forecast quantile at ``level``, censoring allowed for.

    E. L. Kaplan & P. Meier (JASA 53, 1958) on the ratio length / quantile, read off at 1. NaN
    without scored outcomes, or when every one was cut off below its quantile.
    """
    ratios: list[tuple[float, bool]] = []
    for o in outcomes:
        if o.forecast is not None:
            quantile = o.forecast.quantile(level)
            ratio = o.output_tokens / quantile if quantile > 0.0 else math.inf
            ratios.append((0.0 if o.output_tokens == 0 else ratio, o.finish_reason.censored))
    ratios.sort()  # at equal ratios, realised lengths come before lower bounds
    if not ratios or all(censored and ratio < 1.0 for ratio, censored in ratios):
        return math.nan
    above = 1.0
    for i, (ratio, censored) in enumerate(ratios):
        if ratio > 1.0:
            break
        if not censored:
            above *= 1.0 - 1.0 / (len(ratios) - i)
    return 1.0 - above
