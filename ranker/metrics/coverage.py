"""How honest quantiles are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranker.survival import survival_at


def coverage(
    quantiles: ArrayLike, tokens: ArrayLike, censored: ArrayLike, levels: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Share of lengths at or below each forecast quantile, and the rows that could tell, [levels].

    ``quantiles`` has shape [rows, levels]. A censored row tells only when its bound reaches the
    quantile: then the length does too. Rows that cannot tell would each have been covered or not;
    they are counted by the Kaplan-Meier estimate of ``length / quantile`` at 1, which spreads them
    as the comparable rows fell.
    """
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
