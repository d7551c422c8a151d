"""Orders side by side on the same rows: Kendall's tau-b, paired differences, shares of pairs.

Intervals come from one bootstrap (Efron 1979) in which prompts are drawn, not rows, since answers
to one prompt say little news of another: the same draws judge every order, so that differences
between two are paired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranker.metrics import Pairs, resampling, short_long
from training.sources import Lengths

Floats = NDArray[np.float64]
_CONFIDENCE = 0.95
_CENTRES: Mapping[str, Callable[..., Floats]] = {"mean": np.nanmean, "median": np.nanmedian}


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows to judge by. Only rows of one group are compared with each other; figures of groups
    are put together by their ``centre``. ``prompts`` [rows] numbers the prompts.

    Raises ``ValueError`` for an unknown ``centre`` or a group of fewer than two rows.
    """

    lengths: Lengths
    prompts: NDArray[np.int64]
    groups: tuple[NDArray[np.int64], ...]
    centre: str = "mean"

    def __post_init__(self) -> None:
        if self.centre not in _CENTRES:
            raise ValueError(f"centre must be one of {', '.join(_CENTRES)}, got {self.centre!r}")
        if not self.groups or min(map(len, self.groups)) < 2:
            raise ValueError("every group of a sample needs at least two rows")

    def middle(self, values: Floats) -> Floats:
        """[groups, ...] -> [...]; NaN where no group has a number."""
        defined = np.any(np.isfinite(values), axis=0)
        found: Floats = np.full(values.shape[1:], math.nan)
        if np.any(defined):
            found[defined] = _CENTRES[self.centre](values[:, defined], axis=0)
        return found


@dataclass(frozen=True, slots=True)
class Standing:
    """One order. ``gain`` is how far its tau lies above the best rival's, ``half`` half the width
    of the paired 95% interval of that. ``accuracy`` is the share of decided pairs in the right
    order, ``short_long`` that of pairs between the shortest and the longest third; equal scores
    count one half. NaN where undefined."""

    tau: float
    low: float
    high: float
    gain: float
    half: float
    accuracy: float
    short_long: float


def standings(
    sample: Sample,
    scores: Mapping[str, Floats],
    rivals: Sequence[str],
    *,
    seed: int = 0,
    resamples: int = 500,
) -> dict[str, Standing]:
    """Where each of ``scores`` (one number a row, higher = longer) stands.

    ``rivals`` name the orders of which the best is what the others are compared with; that one is
    compared with the second best. Raises ``ValueError`` when scores do not fit the rows.
    """
    for name, found in scores.items():
        if found.shape != sample.lengths.tokens.shape or not np.all(np.isfinite(found)):
            raise ValueError(f"scores of {name}: one finite number for each row is needed")
    rng = np.random.default_rng(seed)
    drawn = np.ones((resamples + 1, len(sample.prompts)), np.float32)  # the first: as they are
    drawn[1:] = resampling.weights(sample.prompts, resamples, rng)
    taus = np.full((len(scores), len(sample.groups), resamples + 1), math.nan)
    shares = np.full((len(scores), len(sample.groups), 2), math.nan)
    for g, rows in enumerate(sample.groups):
        tokens, censored = sample.lengths.tokens[rows], sample.lengths.censored[rows]
        pairs = Pairs.of(tokens, censored)
        for i, found in enumerate(scores.values()):
            order = Pairs.of_scores(found[rows])
            taus[i, g] = order.taus(pairs, drawn[:, rows])
            shares[i, g] = _accuracy(order, pairs), short_long(found[rows], tokens, censored)
    middle = np.stack([sample.middle(part) for part in taus])
    point = dict(zip(scores, middle[:, 0], strict=True))
    ranked = sorted((n for n in rivals if n in point), key=lambda n: point[n], reverse=True)
    draws = dict(zip(scores, middle[:, 1:], strict=True))
    result = {}
    for i, name in enumerate(scores):
        other = next((rival for rival in ranked if rival != name), None)
        gain, half = math.nan, math.nan
        if other is not None:
            gain = float(point[name] - point[other])
            low, high = resampling.interval(draws[name] - draws[other], _CONFIDENCE)
            half = (high - low) / 2.0
        low, high = resampling.interval(draws[name], _CONFIDENCE)
        accuracy, thirds = (float(part) for part in sample.middle(shares[i]))
        result[name] = Standing(float(point[name]), low, high, gain, half, accuracy, thirds)
    return result


def _accuracy(order: Pairs, lengths: Pairs) -> float:
    every = np.abs(lengths.longer).sum(dtype=np.float64)
    right = (order.longer * lengths.longer).sum(dtype=np.float64)
    return float(0.5 * (1.0 + right / every)) if every else math.nan
