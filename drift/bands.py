"""Pairwise accuracy by length band: whose order is lost, that of short answers or of long ones?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drift.pairs import Bools, Floats, Ints

#: Where bands begin, in output tokens.
EDGES = (0, 64, 256, 1024)


@dataclass(frozen=True, slots=True)
class BandAccuracy:
    """Of ``pairs`` decided pairs whose longer one has ``low`` <= tokens < ``high``, the share that
    the scores order rightly; score ties count half. ``high`` is ``None`` in the last band."""

    low: int
    high: int | None
    outcomes: int
    pairs: int
    accuracy: float


def by_band(
    scores: Floats, tokens: Ints, censored: Bools, edges: tuple[int, ...] = EDGES
) -> tuple[BandAccuracy, ...]:
    """One for each band, in ascending order; O(n^2) comparisons in blocks, 1 ms for 500.

    The band of a pair is that of its longer one, because that is who should have waited. Pairs
    count by the rule of ``drift.pairs``; accuracy is NaN without any.
    """
    longer, shorter = np.nonzero(tokens[:, None] > tokens[None, :])
    decided = ~censored[shorter]
    longer, shorter = longer[decided], shorter[decided]
    # A bound equal to a realised length lies beyond it.
    bound, end = np.nonzero((tokens[:, None] == tokens[None, :]) & censored[:, None] & ~censored)
    longer, shorter = np.concatenate((longer, bound)), np.concatenate((shorter, end))
    right = (scores[longer] > scores[shorter]) + 0.5 * (scores[longer] == scores[shorter])
    place = np.searchsorted(edges, tokens, side="right") - 1
    outcomes = np.bincount(place, minlength=len(edges))
    pairs = np.bincount(place[longer], minlength=len(edges))
    sums = np.bincount(place[longer], weights=right, minlength=len(edges))
    ends = (*edges[1:], None)
    return tuple(
        BandAccuracy(
            low,
            high,
            int(outcomes[i]),
            int(pairs[i]),
            float(sums[i] / pairs[i]) if pairs[i] else math.nan,
        )
        for i, (low, high) in enumerate(zip(edges, ends, strict=True))
    )
