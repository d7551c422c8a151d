"""Kendall's tau-b of forecast scores against realised lengths, censoring-aware, with an interval.

M. G. Kendall, "The treatment of ties in ranking problems", Biometrika 33 (1945), gives tau-b. A
censored length (a token limit, a client that left) is a lower bound, so a pair counts only when
its order is known: F. E. Harrell et al., JAMA 247 (1982), the rule behind the concordance index.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from drift.pairs import Bools, Floats, Ints, Pairs


@dataclass(frozen=True, slots=True)
class Tau:
    """tau-b of ``n`` outcomes, its standard error and a confidence interval, all in [-1, 1].

    ``pairs`` is the number of pairs whose order in length is known. With none, or with all scores
    equal, tau-b is undefined: every float is NaN and ``defined`` is false.
    """

    value: float
    low: float
    high: float
    standard_error: float
    n: int
    pairs: int

    @property
    def defined(self) -> bool:
        return not math.isnan(self.value)


def kendall_tau(
    scores: Sequence[float] | Floats,
    tokens: Sequence[int] | Ints,
    censored: Sequence[bool] | Bools | None = None,
    confidence: float = 0.95,
) -> Tau:
    """tau-b of ``scores`` (higher = longer) and ``tokens``, both of shape [n]; O(n log n).

    ``censored[i]`` makes ``tokens[i]`` a lower bound. Pairs censored on both sides, and pairs whose
    bound does not pass the other's length, are left out; without censoring the value is the usual
    tau-b. The interval is the normal one of a ratio of U-statistics (Hoeffding 1948, by the delta
    method on each outcome's influence). It supposes independent outcomes.

    Raises ``ValueError`` when shapes differ, a score is not finite, or ``confidence`` is not in
    (0, 1).
    """
    return tau_of_pairs(Pairs.of(scores, tokens, censored), confidence)


def tau_of_pairs(counted: Pairs, confidence: float = 0.95) -> Tau:
    """:func:`kendall_tau` of pairs that were counted before."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie inside (0, 1), got {confidence}")
    signed, untied, decided = counted.signed, counted.untied, counted.decided
    n, pairs = len(signed), counted.count
    if n < 2:
        return _undefined(n, 0)
    mean_untied, mean_decided = float(untied.mean()), float(decided.mean())
    if mean_untied == 0.0 or mean_decided == 0.0:
        return _undefined(n, pairs)
    scale = math.sqrt(mean_untied * mean_decided)
    value = float(signed.mean()) / scale
    influence = 2.0 * (
        signed / scale - value / 2.0 * (untied / mean_untied + decided / mean_decided)
    )
    error = float(influence.std()) / math.sqrt(n)
    reach = NormalDist().inv_cdf(0.5 + confidence / 2.0) * error
    return Tau(value, max(-1.0, value - reach), min(1.0, value + reach), error, n, pairs)


def _undefined(n: int, pairs: int) -> Tau:
    return Tau(math.nan, math.nan, math.nan, math.nan, n, pairs)
