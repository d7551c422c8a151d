"""Forecasts to simulate with: perfect, noisy, overconfident, or none the wiser."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ranker.types import LEVELS, Forecast

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Kind(StrEnum):
    """What the forecasts know, and whether they know how little that is."""

    TRUTH = "truth"  #: the length itself
    NOISE = "noise"  #: noise of a chosen tau-b, honest about it
    OVERCONFIDENT = "overconfident"  #: the same noise, sold as certain
    FLAT = "flat"  #: nothing, honestly: one distribution for everybody


def forecasts(
    kind: Kind, lengths: Ints, known: Ints, tau: float, rng: np.random.Generator
) -> list[Forecast]:
    """One per length. ``known``: lengths of other requests, which is all that calibration may see.

    ``tau`` matters to ``NOISE`` and ``OVERCONFIDENT``.
    """
    if kind is Kind.TRUTH:
        return truth(lengths)
    if kind is Kind.FLAT:
        return flat(len(lengths), known)
    scores = noisy_scores(np.concatenate([known, lengths]), tau, rng)
    old, new = scores[: len(known)], scores[len(known) :]
    if kind is Kind.OVERCONFIDENT:
        return overconfident(new, old, known)
    return calibrated(new, old, known)


def truth(lengths: Ints) -> list[Forecast]:
    """All quantiles at the length: what an oracle would say."""
    return [_certain(float(length), float(length), "truth") for length in lengths]


def flat(count: int, known: Ints) -> list[Forecast]:
    """The distribution of ``known`` lengths, the same for all: knows nothing and says so."""
    quantiles = tuple(map(float, np.quantile(known, LEVELS)))
    return [Forecast(0.0, quantiles, "flat", "0")] * count


def noisy_scores(lengths: Ints, tau: float, rng: np.random.Generator) -> Floats:
    """Scores whose Kendall tau-b with ``lengths`` is ``tau``: log length plus Gaussian noise.

    The noise is scaled by bisection on these very lengths, to within .005 for a few hundred of
    them; of more than 20,000 the first 20,000 decide. ``tau`` lies in [0, 1]; 1 gives the log
    lengths themselves, 0 pure noise.
    """
    from scipy.stats import kendalltau  # of the extra "train"; nothing else here needs it

    if not 0.0 <= tau <= 1.0:
        raise ValueError(f"tau must lie in [0, 1], got {tau}")
    log, noise = np.log(lengths), rng.standard_normal(len(lengths))
    low, high = 0.0, 1.0  # share of noise in the mixture
    if tau <= 0.0:
        return noise
    part = slice(0, 20_000)
    for _ in range(30):
        share = (low + high) / 2
        scores = (1.0 - share) * log[part] + share * noise[part]
        if kendalltau(scores, lengths[part]).statistic > tau:
            low = share
        else:
            high = share
    return np.asarray((1.0 - low) * log + low * noise, dtype=np.float64)


def calibrated(
    scores: Floats, known_scores: Floats, known_lengths: Ints, bins: int = 20
) -> list[Forecast]:
    """Honest forecasts: the quantiles of lengths that were seen with a like score.

    ``known_*`` are other requests than those forecast. Quantiles per equal-count bin of the known
    scores, made monotone and interpolated between bins.
    """
    order = np.argsort(known_scores, kind="stable")
    parts = np.array_split(order, max(1, min(bins, len(order) // 20)))
    table = np.array([np.quantile(known_lengths[part], LEVELS) for part in parts])
    table = np.maximum.accumulate(table, axis=0)
    middles = np.array([np.median(known_scores[part]) for part in parts])
    columns = [np.interp(scores, middles, table[:, level]) for level in range(len(LEVELS))]
    quantiles = np.maximum.accumulate(np.stack(columns, axis=1), axis=1)
    return [
        Forecast(float(score), tuple(map(float, row)), "calibrated-noise", "0")
        for score, row in zip(scores, quantiles, strict=True)
    ]


def overconfident(scores: Floats, known_scores: Floats, known_lengths: Ints) -> list[Forecast]:
    """Point forecasts sold as certain: the length of the rank that the score has among the known.

    Their distribution over requests is right; that of each is not. A policy that believes them
    orders by noise: the worst case of a ranker gone stale.
    """
    ranks = np.searchsorted(np.sort(known_scores), scores) / max(1, len(known_scores))
    points = np.quantile(known_lengths, np.clip(ranks, 0.0, 1.0))
    return [
        _certain(float(score), float(point), "overconfident-noise")
        for score, point in zip(scores, points, strict=True)
    ]


def _certain(score: float, tokens: float, ranker: str) -> Forecast:
    return Forecast(score, (tokens,) * len(LEVELS), ranker, "0")
