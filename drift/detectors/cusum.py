"""The cumulative sum, one outcome at a time or for whole streams.

E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954): C = max(0, C + rise). The chart
climbs while rises are positive on average, and returns to zero while they are not.
"""

from __future__ import annotations

import math

import numpy as np

from drift.detectors.sample import Floats


class Cusum:
    """``since_zero`` counts outcomes since it last touched zero: an estimate of how long ago the
    change began (Page 1954). It needs no more height than ``ceiling``, and can so come down
    again."""

    __slots__ = ("ceiling", "since_zero", "value")

    def __init__(self, ceiling: float = math.inf) -> None:
        self.ceiling = ceiling
        self.value = 0.0
        self.since_zero = 0

    def add(self, rise: float) -> float:
        """Height after one more outcome."""
        self.value = min(self.ceiling, max(0.0, self.value + rise))
        self.since_zero = self.since_zero + 1 if self.value > 0.0 else 0
        return self.value

    def reset(self) -> None:
        self.value, self.since_zero = 0.0, 0


def cusums(rises: Floats) -> Floats:
    """Heights of CUSUMs without a ceiling; time runs along the first axis.

    C_t = S_t - min(0, S_1 .. S_t) of the partial sums S: the same numbers, without a loop.
    """
    sums = np.cumsum(rises, axis=0)
    heights: Floats = sums - np.minimum.accumulate(np.minimum(sums, 0.0), axis=0)
    # A sum of many rounded terms misses zero by a hair, and zero is where excursions end.
    heights[heights < 1e-9] = 0.0
    return heights
