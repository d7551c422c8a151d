"""Lengths as a ranker learns them: shares of rank, and graded lists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranker.survival import survival_curve, weighted_quantiles

Floats = NDArray[np.float64]
_MOST_GRADES = 31  # LightGBM's default gains stop there
_MOST_ROWS = 10_000  # and it refuses longer lists


@dataclass(frozen=True, slots=True)
class ListConfig:
    """``size`` rows compared with each other at a time, in ``grades`` classes of length."""

    size: int = 64
    grades: int = 31

    def __post_init__(self) -> None:
        if not 2 <= self.size <= _MOST_ROWS:
            raise ValueError(f"lists.size must lie between 2 and {_MOST_ROWS}, got {self.size}")
        if not 2 <= self.grades <= _MOST_GRADES:
            raise ValueError(f"lists.grades must lie between 2 and {_MOST_GRADES}")


def rank_shares(
    tokens: Floats, censored: NDArray[np.bool_], weights: Floats | None = None
) -> Floats:
    """Where each length stands among all, in (0, 1): the share of lengths below it, ties halved,
    each counting by its weight.

    For a censored row, the expectation of that share given that the length is at least the bound:
    half-way between the Kaplan-Meier curve there and 1. Without censoring these are mid-ranks.
    """
    if not len(tokens):
        return np.empty(0)
    values, survival = survival_curve(tokens, censored, weights)
    after = np.concatenate(([1.0], survival))
    above = after[np.searchsorted(values, tokens, side="right")]
    before = after[np.searchsorted(values, tokens, side="left")]
    return 1.0 - np.where(censored, above / 2.0, (above + before) / 2.0)


def lengths_at(
    shares: Floats, tokens: Floats, censored: NDArray[np.bool_], weights: Floats | None = None
) -> Floats:
    """The way back from :func:`rank_shares` of ``tokens``: for each of ``shares``, in any order,
    the length that stands there on the same Kaplan-Meier curve.

    A length that ended comes back as it was, a bound as a longer length. Raises ``ValueError`` when
    there are ``shares`` and no ``tokens``.
    """
    if not len(shares):
        return np.empty(0)
    even = np.ones(len(tokens)) if weights is None else weights
    levels, inverse = np.unique(shares, return_inverse=True)
    found: Floats = weighted_quantiles(tokens, censored, even, levels.tolist())[inverse]
    return found


@dataclass(frozen=True, slots=True)
class Lists:
    """``order`` puts rows list by list; ``sizes`` of the lists; ``grades`` in that order."""

    order: NDArray[np.int64]
    sizes: NDArray[np.int64]
    grades: NDArray[np.int64]


def make_lists(shares: Floats, config: ListConfig, rng: np.random.Generator) -> Lists:
    """Random lists of ``config.size`` rows (the last may be shorter), graded by ``shares``.

    Lists are drawn over all rows: requests that queue together come from anywhere.
    """
    order = rng.permutation(len(shares))
    whole, rest = divmod(len(shares), config.size)
    sizes = np.array([config.size] * whole + [rest] * (rest > 0), dtype=np.int64)
    grades = np.minimum(config.grades - 1, (shares[order] * config.grades).astype(np.int64))
    return Lists(order.astype(np.int64), sizes, grades)
