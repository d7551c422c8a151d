"""What no ranker can be asked to pass by much: how well one draw orders another of its prompt.

Lengths of one prompt differ from draw to draw, so even the model itself, asked again, does not give
the order of the first answers (Fu et al. 2024, section 5). A ranker that knows every prompt's whole
distribution lies a little above that, as it averages over the draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from ranker.metrics import resampling
from ranker.metrics.pairs import Bools, Floats, Matrix, Pairs
from ranker.metrics.resampling import Ints

_LEAST_PROMPTS = 3


@dataclass(frozen=True, slots=True)
class Ceiling:
    """tau-b between two draws of the same ``prompts``, with its bootstrap interval over prompts.

    ``bounds``: censored draws counted as lower bounds, so that pairs which they leave open are left
    out; else they counted as lengths, those cut at one limit as ties. NaN where undefined.
    """

    tau: float
    low: float
    high: float
    prompts: int
    bounds: bool


@dataclass(frozen=True, slots=True)
class Share:
    """A ranker's ``tau`` with single draws, the ``ceiling`` of the same prompts, and ``share``, the
    one by the other, with its interval; both move together from resample to resample."""

    tau: float
    ceiling: float
    share: float
    low: float
    high: float
    prompts: int
    bounds: bool


def ceiling(
    tokens: ArrayLike,
    censored: ArrayLike | None = None,
    *,
    bounds: bool = True,
    seed: int = 0,
    resamples: int = 500,
    confidence: float = 0.95,
    most_prompts: int = 3000,
) -> Ceiling:
    """Of ``tokens`` [prompts, draws], NaN where a prompt has fewer; ``censored`` the same shape.

    With more than two draws, the mean over pairs of draws by the prompts that have both. Of more
    than ``most_prompts`` prompts a random part is judged. Raises ``ValueError`` when shapes differ,
    a length is infinite or an option is out of range.
    """
    resampling.check(resamples, confidence, most_prompts)
    y, c = _checked(tokens, censored, bounds)
    rng = np.random.default_rng(seed)
    rows, weights = _sample(y, most_prompts, resamples, rng)
    taus = _between(_each(y[rows], c[rows]), weights)
    low, high = resampling.interval(taus[1:], confidence)
    return Ceiling(float(taus[0]), low, high, len(rows), bounds)


def share_of_ceiling(
    scores: ArrayLike,
    tokens: ArrayLike,
    censored: ArrayLike | None = None,
    *,
    bounds: bool = True,
    seed: int = 0,
    resamples: int = 500,
    confidence: float = 0.95,
    most_prompts: int = 3000,
) -> Share:
    """``scores`` [prompts] against ``tokens`` [prompts, draws], everything else as in
    :func:`ceiling`.

    The ranker's tau-b is the mean over the draws, each judged alone, as the ceiling is; prompts
    with one draw count for neither.
    """
    resampling.check(resamples, confidence, most_prompts)
    y, c = _checked(tokens, censored, bounds)
    s = np.asarray(scores, dtype=np.float64)
    if s.shape != (len(y),) or not np.all(np.isfinite(s)):
        raise ValueError(f"scores must be {len(y)} finite numbers, one a prompt, got {s.shape}")
    rng = np.random.default_rng(seed)
    rows, weights = _sample(y, most_prompts, resamples, rng)
    draws, order = _each(y[rows], c[rows]), Pairs.of_scores(s[rows])
    taus = [(order.taus(draw.pairs, weights), int(draw.there.sum())) for draw in draws]
    own, top = _mean(taus, len(weights)), _between(draws, weights)
    share = np.full(len(own), math.nan)
    np.divide(own, top, out=share, where=top > 0.0)
    low, high = resampling.interval(share[1:], confidence)
    return Share(float(own[0]), float(top[0]), float(share[0]), low, high, len(rows), bounds)


def _checked(tokens: ArrayLike, censored: ArrayLike | None, bounds: bool) -> tuple[Floats, Bools]:
    y = np.asarray(tokens, dtype=np.float64)
    c = np.zeros(y.shape, np.bool_) if censored is None else np.asarray(censored, dtype=np.bool_)
    if y.ndim != 2 or c.shape != y.shape:
        raise ValueError(
            f"tokens and censored must have one shape [prompts, draws], got {y.shape}, {c.shape}"
        )
    if np.any(np.isinf(y)):
        raise ValueError("tokens must be finite, or NaN where a prompt has no such draw")
    return y, c if bounds else np.zeros_like(c)


def _sample(
    tokens: Floats, most_prompts: int, resamples: int, rng: np.random.Generator
) -> tuple[Ints, Matrix]:
    """Prompts with several draws, and how often each counts, [1 + resamples, prompts]: in the
    first row once each."""
    several = np.flatnonzero(np.count_nonzero(~np.isnan(tokens), axis=1) > 1)
    rows = resampling.part(np.arange(len(several)), most_prompts, rng).rows
    weights = np.ones((1 + resamples, len(rows)), np.float32)
    if len(rows):
        weights[1:] = resampling.weights(rows, resamples, rng)
    return several[rows], weights


@dataclass(frozen=True, slots=True)
class _Draw:
    """One draw of each prompt that has it, ``there`` [prompts]; no pair is known of the others."""

    pairs: Pairs
    there: Bools

    @classmethod
    def of(cls, tokens: Floats, censored: Bools) -> _Draw:
        there = ~np.isnan(tokens)
        pairs = Pairs.of(np.where(there, tokens, 0.0), censored)
        both = (there[:, None] & there[None, :]).astype(np.float32)
        return cls(Pairs(pairs.longer * both, pairs.known * both), there)


def _each(tokens: Floats, censored: Bools) -> list[_Draw]:
    return [_Draw.of(tokens[:, k], censored[:, k]) for k in range(tokens.shape[1])]


def _between(draws: list[_Draw], weights: Matrix) -> Floats:
    taus = [
        (a.pairs.taus(b.pairs, weights), int((a.there & b.there).sum()))
        for a, b in combinations(draws, 2)
    ]
    return _mean(taus, len(weights))


def _mean(taus: list[tuple[Floats, int]], length: int) -> Floats:
    """Mean by prompts, of those draws, or pairs of draws, that enough of them have."""
    told = [(t, n) for t, n in taus if n >= _LEAST_PROMPTS]
    if not told:
        return np.full(length, math.nan)
    found: Floats = np.average([t for t, _ in told], axis=0, weights=[n for _, n in told])
    return found
