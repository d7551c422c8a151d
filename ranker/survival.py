"""Quantiles of lengths of which some are only known to be longer than a bound."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _curve(
    y: NDArray[np.float64], c: NDArray[np.bool_], w: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Lengths and censoring in ascending order, and the share that survives each length."""
    # At one length, those that ended come before those that were cut off there.
    order = np.lexsort((c, y))
    y, c, w = y[order], c[order], w[order]
    if not c.any():
        # The product below telescopes to this; computed directly, rounding does not build up.
        return y, c, np.maximum(0.0, 1.0 - np.cumsum(w) / w.sum())
    at_risk = np.cumsum(w[::-1])[::-1]
    kept = np.where(c, 1.0, np.maximum(0.0, 1.0 - w / at_risk))
    return y, c, np.asarray(np.cumprod(kept), dtype=np.float64)


def survival_curve(
    values: ArrayLike, censored: ArrayLike, weights: ArrayLike | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values in ascending order, and the Kaplan-Meier share that lives on after each of them;
    ``weights``, above 0, say how much each counts, alike when left out."""
    y = np.asarray(values, dtype=np.float64)
    w = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
    y, _, survival = _curve(y, np.asarray(censored, dtype=np.bool_), w)
    return y, survival


def survival_at(values: ArrayLike, censored: ArrayLike, threshold: float) -> float:
    """Kaplan-Meier estimate of the share of values above ``threshold``; NaN without rows."""
    y, survival = survival_curve(values, censored)
    if not len(y):
        return float("nan")
    last = int(np.searchsorted(y, threshold, side="right")) - 1
    return 1.0 if last < 0 else float(survival[last])


def weighted_quantiles(
    tokens: ArrayLike, censored: ArrayLike, weights: ArrayLike, levels: Sequence[float]
) -> NDArray[np.float64]:
    """Quantiles of the weighted Kaplan-Meier curve at ``levels`` (ascending), in tokens.

    Without censored rows and with equal weights this is the inverse of the empirical distribution.
    Where the curve ends above zero because the longest rows are bounds, it goes on as an
    exponential through its last point (Brown, Hollander & Korwar 1974): an assumption, but a
    smaller one than that no answer is longer than the limit in the log. Weights of 0 drop a row.
    Raises ``ValueError`` when no row has weight.
    """
    y = np.asarray(tokens, dtype=np.float64)
    c = np.asarray(censored, dtype=np.bool_)
    w = np.asarray(weights, dtype=np.float64)
    keep = w > 0.0
    if not np.any(keep):
        raise ValueError("quantiles need at least one row with a positive weight")
    y, c, w = y[keep], c[keep], w[keep]
    p = np.asarray(levels, dtype=np.float64)
    y, c, survival = _curve(y, c, w)
    died = 1.0 - survival
    if not c[-1]:
        died[-1] = 1.0
    first = np.searchsorted(died, p - 1e-12, side="left")
    inside = first < len(y)
    result = y[np.minimum(first, len(y) - 1)]
    if not np.all(inside):
        last, left = float(y[-1]) or 1.0, float(survival[-1])
        # Everything is a bound: the curve never fell, and one more row would have ended it.
        left = min(left, len(y) / (len(y) + 1.0))
        rate = -np.log(left) / last
        result = np.where(inside, result, np.maximum(last, -np.log1p(-p) / rate))
    return np.maximum.accumulate(result)
