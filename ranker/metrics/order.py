"""How good one order is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranker.metrics import resampling
from ranker.metrics.pairs import Pairs, ratio
from ranker.metrics.partners import Partners

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Order:
    """Agreement between scores and lengths over ``pairs`` pairs whose order in length is known.

    ``tau`` is Kendall's tau-b (Kendall 1945) with the bootstrap interval ``[low, high]``;
    ``accuracy`` is the share of pairs with different lengths that the scores put in the right
    order, equal scores counting one half (Harrell's concordance). NaN where undefined.
    """

    tau: float
    low: float
    high: float
    accuracy: float
    rows: int
    pairs: int


def order(
    scores: ArrayLike,
    tokens: ArrayLike,
    censored: ArrayLike | None = None,
    *,
    clusters: ArrayLike | None = None,
    seed: int = 0,
    resamples: int = 500,
    confidence: float = 0.95,
    most_rows: int = 4000,
) -> Order:
    """Agreement of ``scores`` (higher = longer) with ``tokens``; vectors of one length.

    Pairs whose order in length is unknown because of a censored side are left out. The interval is
    a percentile bootstrap over rows (Efron 1979) drawn with ``seed``, on at most ``most_rows``
    rows (a random part, see :func:`ranker.metrics.resampling.part`; the interval then narrowed to
    the full number by the square-root law). ``clusters`` marks rows that are drawn together, as all
    answers to one prompt must be: they share its difficulty, and taken for independent they would
    make the interval too narrow.

    Raises ``ValueError`` when the shapes differ, a number is not finite, or an option is out of
    range. Time and memory grow as ``n log n`` and ``n``; those of the interval with the square of
    its rows.
    """
    resampling.check(resamples, confidence, most_rows)
    s, y, c = checked(scores, tokens, censored)
    number = resampling.cluster_numbers(clusters, len(s))
    tau, accuracy, pairs = point(s, y, c)
    low, high = math.nan, math.nan
    if resamples and not math.isnan(tau):
        rng = np.random.default_rng(seed)
        part = resampling.part(number, most_rows, rng)
        weights = part.weights(number, resamples, rng)
        taus = Pairs.of_scores(s[part.rows]).taus(Pairs.of(y[part.rows], c[part.rows]), weights)
        centre = math.nan if part.whole else tau
        low, high = resampling.interval(taus, confidence, centre, part.too_wide)
    return Order(tau, low, high, accuracy, len(s), pairs)


def point(scores: Floats, tokens: Floats, censored: Bools) -> tuple[float, float, int]:
    """tau-b, share of pairs in the right order, and number of pairs whose order is known.

    Exact, of all rows: O(n log n) time, O(n) memory.
    """
    found = Partners.of(scores, tokens, censored)
    each = (found.concordant, found.discordant, found.tied, found.equal, found.parted)
    # Every pair was counted by both of its rows.
    right, wrong, tied, equal, parted = (int(part.sum()) // 2 for part in each)
    decided = right + wrong + tied
    tau = float(ratio(*np.array([right - wrong, right + wrong + parted, decided], np.float64)))
    # A pair with equal scores is half right, and adds nothing to the concordance.
    accuracy = 0.5 * (1.0 + (right - wrong) / decided) if decided else math.nan
    return tau, accuracy, decided + equal


def checked(
    scores: ArrayLike, tokens: ArrayLike, censored: ArrayLike | None
) -> tuple[Floats, Floats, Bools]:
    """The three as finite vectors of one length; ``ValueError`` when they are not."""
    s, y = np.asarray(scores, dtype=np.float64), np.asarray(tokens, dtype=np.float64)
    c = np.zeros(len(y), np.bool_) if censored is None else np.asarray(censored, dtype=np.bool_)
    if not (s.ndim == 1 and s.shape == y.shape == c.shape):
        raise ValueError(
            f"scores, tokens and censored must be vectors of one length, got {s.shape}, {y.shape}, "
            f"{c.shape}"
        )
    if not (np.all(np.isfinite(s)) and np.all(np.isfinite(y))):
        raise ValueError("scores and tokens must be finite")
    return s, y, c
