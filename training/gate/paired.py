"""Two rankers on the same rows: the difference of their tau-b, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranker.metrics import _pairs
from training.sources import Lengths

Floats = NDArray[np.float64]
_MOST_ROWS = 3000


@dataclass(frozen=True, slots=True)
class Difference:
    """Challenger minus champion, with the 95% interval of the paired difference."""

    champion: float
    challenger: float
    value: float
    low: float
    high: float


def tau(
    champion: Floats,
    challenger: Floats,
    lengths: Lengths,
    prompts: NDArray[np.int64],
    resamples: int,
    seed: int,
) -> Difference:
    """Difference of tau-b over the pairs whose order in length is known; all vectors [rows].

    ``prompts`` numbers the prompts: answers to one are drawn together, and each resample draws
    the same for both rankers, so what makes a prompt hard for both cancels (paired percentile
    bootstrap, Efron 1979). Equal scores throughout are no order: tau 0. NaN when the lengths have
    none either.
    """
    n = len(lengths.tokens)
    rng = np.random.default_rng(seed)
    part = rng.choice(n, _MOST_ROWS, replace=False) if n > _MOST_ROWS else np.arange(n)
    _, number = np.unique(prompts[part], return_inverse=True)
    m = int(number.max()) + 1
    draws = rng.multinomial(m, np.full(m, 1.0 / m), size=resamples)
    weights = np.vstack((np.ones((1, m)), draws)).astype(np.float32)[:, number]
    old, new = (_taus(s[part], lengths, part, weights) for s in (champion, challenger))
    gaps = new - old
    told = gaps[1:][np.isfinite(gaps[1:])]
    low, high = np.quantile(told, (0.025, 0.975)) if len(told) else (np.nan, np.nan)
    return Difference(float(old[0]), float(new[0]), float(gaps[0]), float(low), float(high))


def _taus(scores: Floats, lengths: Lengths, part: NDArray[np.int64], draws: NDArray) -> Floats:
    pairs = _pairs(scores, lengths.tokens[part], lengths.censored[part], slice(None))
    together, by_score, by_length = (
        np.einsum("rn,rn->r", draws @ matrix, draws, dtype=np.float64)
        for matrix in (pairs.concordant, pairs.scores_differ, pairs.lengths_differ)
    )
    scale = np.sqrt(by_score * by_length)
    none = np.where(by_length > 0.0, 0.0, np.nan)
    return np.divide(together, scale, out=none, where=scale > 0.0)
