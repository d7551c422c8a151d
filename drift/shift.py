"""How far a distribution has moved from that of the reference: PSI and a KS-type distance.

Population stability index: sum of (q - p) ln(q / p) over bins of equal share in the reference; N.
Siddiqi, "Credit Risk Scorecards" (2006), ch. 10, calls 0.1 to 0.25 a minor and more a major shift.
The distance is Kolmogorov and Smirnov's, between Kaplan-Meier curves where lengths are bounds.
Neither is a loss of rank order: inputs may move while the order stays good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from drift.kaplan_meier import Curve, Floats

#: Bins of the index; shares in them are taken to be at least this part of one outcome.
BINS = 10
_LEAST = 0.5
#: Share of samples from one distribution whose distance passes ``chance``.
_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Moved:
    """``psi`` and ``distance`` of a window of ``window`` from a reference of ``reference`` values.

    ``chance``: the distance that two samples of these sizes from one distribution pass in 5 % of
    cases. NaN where there are too few to say.
    """

    psi: float
    distance: float
    chance: float
    reference: int
    window: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """The distribution of one feature in the reference."""

    curve: Curve
    edges: Floats
    shares: Floats
    count: int

    @classmethod
    def of(cls, values: ArrayLike, censored: ArrayLike | None = None) -> Baseline:
        """From values of shape [n], of which ``censored`` ones are lower bounds."""
        v = np.asarray(values, dtype=np.float64)
        c = np.zeros(len(v), np.bool_) if censored is None else np.asarray(censored, np.bool_)
        curve = Curve.of(v, c)
        levels = np.arange(1, BINS) / BINS
        places = np.searchsorted(curve.probability, levels - 1e-12)
        # Where censoring hides the top, bins end with what is known.
        edges = np.unique(curve.at[places[places < len(curve.at)]])
        return cls(curve, edges, _shares(curve, edges), len(v))

    def thinned(self, points: int) -> Baseline:
        """With at most ``points`` of its curve: distances are off by one part of it at most."""
        return replace(self, curve=self.curve.thinned(points))

    def moved(self, values: ArrayLike, censored: ArrayLike | None = None) -> Moved:
        """How far ``values``, of shape [m], lie from this. NaN with fewer than ten on a side."""
        v = np.asarray(values, dtype=np.float64)
        c = np.zeros(len(v), np.bool_) if censored is None else np.asarray(censored, np.bool_)
        if min(len(v), self.count) < BINS or not len(self.edges):
            return Moved(math.nan, math.nan, math.nan, self.count, len(v))
        curve = Curve.of(v, c)
        p = np.maximum(self.shares, _LEAST / self.count)
        q = np.maximum(_shares(curve, self.edges), _LEAST / len(v))
        p, q = p / p.sum(), q / q.sum()
        points = np.concatenate((self.curve.at, curve.at))
        points = points[points <= min(self.curve.known_to, curve.known_to)]
        gap = float(np.abs(self.curve(points) - curve(points)).max()) if len(points) else 0.0
        return Moved(
            psi=float(((q - p) * np.log(q / p)).sum()),
            distance=gap,
            chance=chance(self.count, len(v)),
            reference=self.count,
            window=len(v),
        )


def chance(reference: int, window: int, tests: int = 1) -> float:
    """The distance that two samples of these sizes from one distribution pass in 5 % of cases, on
    any of ``tests`` features in at most 5 % (Bonferroni); NaN with fewer than ten in one.

    N. Smirnov, "Table for estimating the goodness of fit of empirical distributions", Ann. Math.
    Statist. 19 (1948), to the first term of his series.
    """
    if min(reference, window) < BINS:
        return math.nan
    critical = math.sqrt(-math.log(_LEVEL / tests / 2.0) / 2.0)
    return critical * math.sqrt(1.0 / reference + 1.0 / window)


def _shares(curve: Curve, edges: Floats) -> Floats:
    """Probability of each bin: up to the first edge, between edges, beyond the last."""
    below = np.concatenate(([0.0], curve(edges), [1.0]))
    return np.diff(below)
