"""How good an order is, and how honest the quantiles are, on rows the ranker never saw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_BLOCK = 1024


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


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Rows of the pair matrices: concordance, scores differ, lengths differ, order is known."""

    concordant: NDArray[np.float32]
    scores_differ: NDArray[np.float32]
    lengths_differ: NDArray[np.float32]
    known: NDArray[np.float32]


def decided(
    tokens: Floats, censored: NDArray[np.bool_], rows: slice = slice(None)
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Of pairs of lengths, which is the longer, and whether that is known.

    Both ``[rows, n]``: 1 where the row's length is the longer, -1 where it is the shorter, 0 for
    equal and for unknown ones. A bound says who is longer only once it has reached the other's
    length; at equality the one that was cut off is the longer. Two bounds say nothing.
    """
    yi, ci = tokens[rows, None], censored[rows, None]
    longer = yi > tokens[None, :]
    shorter = yi < tokens[None, :]
    equal = ~longer & ~shorter
    sign = np.zeros(longer.shape, dtype=np.float32)
    one_side = ci ^ censored[None, :]
    both_known = ~ci & ~censored[None, :]
    sign[longer & (both_known | (one_side & ci))] = 1.0
    sign[shorter & (both_known | (one_side & censored[None, :]))] = -1.0
    sign[equal & one_side & ci] = 1.0
    sign[equal & one_side & censored[None, :]] = -1.0
    return sign, both_known | (sign != 0.0)


def _pairs(s: Floats, y: Floats, c: NDArray[np.bool_], rows: slice) -> _Pairs:
    sign, known = decided(y, c, rows)
    order = np.sign(s[rows, None] - s[None, :]).astype(np.float32)
    return _Pairs(
        order * sign,
        ((order != 0.0) & known).astype(np.float32),
        np.abs(sign),
        known.astype(np.float32),
    )


def order(
    scores: ArrayLike,
    tokens: ArrayLike,
    censored: ArrayLike | None = None,
    *,
    seed: int = 0,
    resamples: int = 500,
    confidence: float = 0.95,
    most_rows: int = 4000,
) -> Order:
    """Agreement of ``scores`` (higher = longer) with ``tokens``; vectors of one length.

    Pairs whose order in length is unknown because of a censored side are left out. The interval is
    a percentile bootstrap over rows (Efron 1979) drawn with ``seed``, on at most ``most_rows``
    rows (a random part, the interval then widened to the full number by the square-root law).
    Raises ``ValueError`` when the shapes differ, a number is not finite, or an option is out of
    range. Time and memory grow with the square of the rows.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie inside (0, 1), got {confidence}")
    if resamples < 0 or most_rows < 2:
        raise ValueError("resamples must be at least 0 and most_rows at least 2")
    s, y = np.asarray(scores, dtype=np.float64), np.asarray(tokens, dtype=np.float64)
    c = np.zeros(len(y), np.bool_) if censored is None else np.asarray(censored, dtype=np.bool_)
    if not (s.ndim == 1 and s.shape == y.shape == c.shape):
        raise ValueError(
            f"scores, tokens and censored must be vectors of one length, got {s.shape}, {y.shape}, "
            f"{c.shape}"
        )
    if not (np.all(np.isfinite(s)) and np.all(np.isfinite(y))):
        raise ValueError("scores and tokens must be finite")
    sums = np.zeros(4)
    for start in range(0, len(s), _BLOCK):
        block = _pairs(s, y, c, slice(start, start + _BLOCK))
        parts = (block.concordant, block.scores_differ, block.lengths_differ, block.known)
        sums += [float(part.sum(dtype=np.float64)) for part in parts]
    tau = _ratio(float(sums[0]), float(sums[1]), float(sums[2]))
    # A pair with equal scores is half right, and adds nothing to the concordance.
    accuracy = 0.5 * (1.0 + float(sums[0] / sums[2])) if sums[2] else math.nan
    low, high = math.nan, math.nan
    if resamples and not math.isnan(tau):
        low, high = _interval(s, y, c, tau, seed, resamples, confidence, most_rows)
    known = round(sums[3] - np.count_nonzero(~c)) // 2  # the diagonal is no pair
    return Order(tau, low, high, accuracy, len(s), known)


def _ratio(concordant: float, scores_differ: float, lengths_differ: float) -> float:
    scale = math.sqrt(scores_differ * lengths_differ)
    return concordant / scale if scale > 0.0 else math.nan


def _interval(
    s: Floats,
    y: Floats,
    c: NDArray[np.bool_],
    tau: float,
    seed: int,
    resamples: int,
    confidence: float,
    most_rows: int,
) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    n = len(s)
    part = rng.choice(n, most_rows, replace=False) if n > most_rows else np.arange(n)
    m = len(part)
    pairs = _pairs(s[part], y[part], c[part], slice(None))
    # How often each row was drawn turns every resample into three quadratic forms.
    draws = rng.multinomial(m, np.full(m, 1.0 / m), size=resamples).astype(np.float32)
    forms = [
        np.einsum("rn,rn->r", draws @ matrix, draws, dtype=np.float64)
        for matrix in (pairs.concordant, pairs.scores_differ, pairs.lengths_differ)
    ]
    scale = np.sqrt(forms[1] * forms[2])
    taus = forms[0][scale > 0.0] / scale[scale > 0.0]
    if not len(taus):
        return math.nan, math.nan
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(taus, (tail, 1.0 - tail))
    if m < n:
        centre, shrink = float(np.median(taus)), math.sqrt(m / n)
        low, high = tau + (low - centre) * shrink, tau + (high - centre) * shrink
    return float(low), float(high)


def coverage(
    quantiles: ArrayLike, tokens: ArrayLike, censored: ArrayLike, levels: Sequence[float]
) -> tuple[Floats, NDArray[np.int64]]:
    """Share of lengths at or below each forecast quantile, and the rows that could tell, [levels].

    ``quantiles`` has shape [rows, levels]. A censored row tells only when its bound reaches the
    quantile: then the length does too. Rows that cannot tell would each have been covered or not;
    they are counted by the Kaplan-Meier estimate of ``length / quantile`` at 1, which spreads them
    as the comparable rows fell.
    """
    from ranker.survival import survival_at

    q = np.asarray(quantiles, dtype=np.float64)
    y = np.asarray(tokens, dtype=np.float64)
    c = np.asarray(censored, dtype=np.bool_)
    if q.shape != (len(y), len(levels)) or c.shape != y.shape:
        raise ValueError(
            f"coverage: quantiles must have shape {(len(y), len(levels))}, got {q.shape}"
        )
    shares, told = np.full(len(levels), math.nan), np.zeros(len(levels), np.int64)
    for k in range(len(levels)):
        told[k] = np.count_nonzero(~c | (y >= q[:, k]))
        if told[k]:
            shares[k] = 1.0 - survival_at(y / np.maximum(q[:, k], 1e-9), c, 1.0)
    return shares, told
