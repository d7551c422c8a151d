"""Harrell's C of forecast scores against realised lengths, with an interval.

F. E. Harrell et al., "Evaluating the yield of medical tests", JAMA 247 (1982): of the pairs whose
order in length is known under censoring, the share that the scores order rightly, score ties half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from drift.pairs import Pairs


@dataclass(frozen=True, slots=True)
class Concordance:
    """C with a confidence interval, in [0, 1]: 0.5 is chance, 1 perfect. NaN when undefined."""

    value: float
    low: float
    high: float


def harrell_c(counted: Pairs, confidence: float = 0.95) -> Concordance:
    """C of counted pairs, NaN when none is decided.

    The interval is the normal one of a ratio of U-statistics, as that of tau-b: C is half of one
    plus Somers' D, the mean sign concordance of decided pairs. Raises ``ValueError`` when
    ``confidence`` is not in (0, 1).
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie inside (0, 1), got {confidence}")
    signed, decided = counted.signed, counted.decided
    if counted.count == 0:
        return Concordance(math.nan, math.nan, math.nan)
    mean = float(decided.mean())
    somers = float(signed.mean()) / mean
    influence = (signed - somers * decided) / mean  # of C: half of that of D
    error = float(influence.std()) / math.sqrt(len(signed))
    reach = NormalDist().inv_cdf(0.5 + confidence / 2.0) * error
    value = (1.0 + somers) / 2.0
    return Concordance(value, max(0.0, value - reach), min(1.0, value + reach))
