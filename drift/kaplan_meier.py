"""The distribution of lengths of which some are lower bounds.

E. L. Kaplan & P. Meier, "Nonparametric estimation from incomplete observations", JASA 53 (1958).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curve:
    """Distribution function: ``at[i]`` is reached or stayed below with ``probability[i]``.

    ``at`` ascends and holds the realised values alone. ``known_to`` is the largest value seen,
    bound or not: beyond it the data say nothing.
    """

    at: Floats
    probability: Floats
    known_to: float

    @classmethod
    def of(cls, values: ArrayLike, censored: ArrayLike) -> Curve:
        """From values of shape [n]; ``censored[i]`` makes ``values[i]`` a lower bound.

        A bound equal to a realised value lies beyond it. Empty input gives an empty curve.
        """
        v, c = np.asarray(values, dtype=np.float64), np.asarray(censored, dtype=np.bool_)
        if not len(v):
            return cls(np.empty(0), np.empty(0), -np.inf)
        order = np.lexsort((c, v))
        v, c = v[order], c[order]
        at, events = np.unique(v[~c], return_counts=True)
        if not len(at):
            return cls(at, at, float(v[-1]))
        risk = len(v) - np.searchsorted(v, at, side="left")
        probability = np.asarray(1.0 - np.cumprod(1.0 - events / risk), dtype=np.float64)
        return cls(at, probability, float(v[-1]))

    def thinned(self, points: int) -> Curve:
        """At most ``points`` of it, as many steps apart from each other as can be, the ends among
        them."""
        last = max(0, len(self.at) - 1)
        places = np.unique(np.linspace(0, last, points).round().astype(np.int64))
        kept = places[: len(self.at)]
        return Curve(self.at[kept], self.probability[kept], self.known_to)

    def __call__(self, points: ArrayLike) -> Floats:
        """Probability of staying at or below each of ``points``, flat beyond what is known."""
        index = np.searchsorted(self.at, np.asarray(points, dtype=np.float64), side="right")
        return np.concatenate(([0.0], self.probability))[index]
