"""Orders side by side on the same rows: Kendall's tau-b, paired differences, shares of pairs.

Intervals come from one bootstrap (Efron 1979) in which prompts are drawn, not rows, since answers
to one prompt say little news of another: the same draws judge every order, so that differences
between two are paired.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranker.metrics import decided
from training.sources import Lengths

Floats = NDArray[np.float64]
Matrix = NDArray[np.float32]
_CENTRES = {"mean": np.nanmean, "median": np.nanmedian}


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows to judge by. Only rows of one group are compared with each other; figures of groups
    are put together by their ``centre``. ``prompts`` [rows] numbers the prompts from 0.

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
    weights = _weights(sample, seed, resamples)
    taus = np.full((len(scores), len(sample.groups), resamples + 1), math.nan)
    shares = np.full((len(scores), len(sample.groups), 2), math.nan)
    for g, rows in enumerate(sample.groups):
        pairs = _Pairs.of(sample.lengths.tokens[rows], sample.lengths.censored[rows])
        drawn = weights[:, sample.prompts[rows]]
        for i, found in enumerate(scores.values()):
            order = np.sign(found[rows, None] - found[None, rows]).astype(np.float32)
            taus[i, g] = pairs.taus(order, drawn)
            shares[i, g] = pairs.share(order), pairs.share(order, pairs.outer)
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
            low, high = _ends(draws[name] - draws[other])
            half = (high - low) / 2.0
        low, high = _ends(draws[name])
        accuracy, short_long = (float(part) for part in sample.middle(shares[i]))
        result[name] = Standing(float(point[name]), low, high, gain, half, accuracy, short_long)
    return result


def agreement(first: Floats, second: Lengths) -> float:
    """tau-b of one answer each to the same prompts with another: what no ranker can pass."""
    pairs = _Pairs.of(second.tokens, second.censored)
    order = np.sign(first[:, None] - first[None, :]).astype(np.float32)
    return float(pairs.taus(order, np.ones((1, len(first)), np.float32))[0])


def _weights(sample: Sample, seed: int, resamples: int) -> Matrix:
    """How often each prompt counts, [1 + resamples, prompts]; the first row is the data itself."""
    n = int(sample.prompts.max()) + 1
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(n, np.full(n, 1.0 / n), size=resamples)
    return np.vstack((np.ones((1, n)), drawn)).astype(np.float32)


def _ends(draws: Floats) -> tuple[float, float]:
    known = draws[np.isfinite(draws)]
    if not len(known):
        return math.nan, math.nan
    low, high = np.quantile(known, (0.025, 0.975))
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """What is known of each pair of rows of a group, all [rows, rows].

    ``longer`` is 1 where the row is known to be longer than the column, -1 where shorter, else 0;
    ``known`` where that is known, equality included; ``outer`` where one is of the shortest third
    and the other of the longest.
    """

    longer: Matrix
    known: Matrix
    outer: Matrix

    @classmethod
    def of(cls, tokens: Floats, censored: NDArray[np.bool_]) -> _Pairs:
        longer, known = decided(tokens, censored)
        third = len(tokens) // 3
        by_length = np.argsort(tokens, kind="stable")
        part = np.zeros(len(tokens), np.int8)
        part[by_length[:third]], part[by_length[len(tokens) - third :]] = -1, 1
        outer = (part[:, None] * part[None, :] == -1).astype(np.float32) * np.abs(longer)
        return cls(longer, known.astype(np.float32), outer)

    def taus(self, order: Matrix, drawn: Matrix) -> Floats:
        """tau-b under each row of ``drawn`` [draws, rows], NaN where an order is constant."""
        forms = [
            np.einsum("dr,dr->d", drawn @ matrix, drawn, dtype=np.float64)
            for matrix in (
                order * self.longer,
                np.abs(order) * self.known,
                np.abs(self.longer),
            )
        ]
        scale = np.sqrt(forms[1] * forms[2])
        found: Floats = np.full(len(drawn), math.nan)
        np.divide(forms[0], scale, out=found, where=scale > 0.0)
        return found

    def share(self, order: Matrix, among: Matrix | None = None) -> float:
        decided = np.abs(self.longer) if among is None else among
        pairs = float(decided.sum(dtype=np.float64))
        right = float((order * self.longer * decided).sum(dtype=np.float64))
        return 0.5 * (1.0 + right / pairs) if pairs else math.nan
