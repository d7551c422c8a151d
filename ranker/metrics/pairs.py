"""Pairs of rows: who is longer, whether that is known, and Kendall's tau-b over what is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Matrix = NDArray[np.float32]


def decided(tokens: Floats, censored: Bools) -> tuple[Matrix, Bools]:
    """Of pairs of lengths, which is the longer, and whether that is known.

    Both ``[n, n]``: 1 where the row's length is the longer, -1 where it is the shorter, 0 for
    equal and for unknown ones. A bound says who is longer only once it has reached the other's
    length; at equality the one that was cut off is the longer. Two bounds say nothing.
    """
    yi, ci = tokens[:, None], censored[:, None]
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


@dataclass(frozen=True, slots=True)
class Pairs:
    """All pairs of rows, [n, n]: ``longer`` as :func:`decided` has it, ``known`` as 0 or 1."""

    longer: Matrix
    known: Matrix

    @classmethod
    def of(cls, tokens: Floats, censored: Bools) -> Pairs:
        sign, known = decided(tokens, censored)
        return cls(sign, known.astype(np.float32))

    @classmethod
    def of_scores(cls, scores: Floats) -> Pairs:
        """A score is always known."""
        order = np.sign(scores[:, None] - scores[None, :]).astype(np.float32)
        return cls(order, np.ones_like(order))

    def taus(self, other: Pairs, weights: Matrix) -> Floats:
        """tau-b (Kendall 1945) of the two orders, over pairs that both know, [draws].

        ``weights`` [draws, n] says how often each row counts, which turns every resample into
        three quadratic forms. NaN where either order is constant.
        """
        forms = [
            quadratic(matrix, weights)
            for matrix in (
                self.longer * other.longer,
                np.abs(self.longer) * other.known,
                np.abs(other.longer) * self.known,
            )
        ]
        return ratio(*forms)


def quadratic(matrix: Matrix, weights: Matrix) -> Floats:
    """``w M w`` for each row ``w`` of ``weights``, [draws]."""
    found: Floats = np.einsum("rn,rn->r", weights @ matrix, weights, dtype=np.float64)
    return found


def ratio(concordant: Floats, first: Floats, second: Floats) -> Floats:
    """Concordant minus discordant pairs by the geometric mean of those that either side tells
    apart; NaN where one side tells none apart."""
    scale = np.sqrt(first * second)
    found: Floats = np.full(scale.shape, math.nan)
    np.divide(concordant, scale, out=found, where=scale > 0.0)
    return found
