"""Short against long: what a queue gains most by."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranker.metrics.order import checked
from ranker.metrics.pairs import Bools, Floats
from ranker.survival import weighted_quantiles


def thirds(tokens: Floats, censored: Bools) -> NDArray[np.int8]:
    """-1 for rows of the shortest third, 1 for those of the longest, 0 for the rest, [n].

    The thirds are those of the Kaplan-Meier curve: the shortest up to where it reaches 1/3, the
    longest beyond where it reaches 2/3, or, when that is beyond all data, as long as any. A
    censored row is of the longest once its bound has come so far; below, where it belongs is not
    known. All 0 when the thirds overlap.
    """
    found = np.zeros(len(tokens), np.int8)
    if not len(tokens):
        return found
    even = np.ones(len(tokens))
    short, long = weighted_quantiles(tokens, censored, even, (1.0 / 3.0, 2.0 / 3.0))
    shortest = ~censored & (tokens <= short)
    longest = (tokens > long) | (censored & (tokens >= long))
    if not longest.any():
        longest = tokens >= tokens.max()
    if not np.any(shortest & longest):
        found[shortest], found[longest] = -1, 1
    return found


def short_long(scores: ArrayLike, tokens: ArrayLike, censored: ArrayLike | None = None) -> float:
    """Share of pairs of a row of the shortest and one of the longest third that ``scores`` put in
    the right order, equal scores counting one half: the area under the ROC curve between thirds.

    Vectors of one length; NaN when a third is empty. Raises ``ValueError`` when shapes differ or a
    number is not finite.
    """
    s, y, c = checked(scores, tokens, censored)
    part = thirds(y, c)
    short, long = np.sort(s[part < 0]), s[part > 0]
    if not (len(short) and len(long)):
        return math.nan
    below = np.searchsorted(short, long, side="left")
    upto = np.searchsorted(short, long, side="right")
    return float((below + upto).sum() / (2.0 * len(short) * len(long)))
