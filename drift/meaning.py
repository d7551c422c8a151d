"""How far embeddings have moved, by the sketches of them that forecasts carry.

A distribution is known by its projections on all lines (H. Cramer & H. Wold, "Some theorems on
distribution functions", J. London Math. Soc. 11, 1936). A sketch holds a few of them, drawn at
random (``ranker.sketch``), and the one that moved the furthest speaks for all. It tells that what
is asked has changed, though its length and score may not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from drift.kaplan_meier import Floats
from drift.shift import BINS, Baseline, Moved, chance

#: Points of each axis that are remembered: there are several, and a series has them for long.
POINTS = 256


@dataclass(frozen=True, slots=True)
class Meaning:
    """The distribution of sketches in the reference, by axis."""

    axes: tuple[Baseline, ...]

    @classmethod
    def of(cls, sketches: Mapping[int, Floats]) -> Meaning | None:
        """From sketches of shape [n, axes], by number of axes; of these the one that most have.

        None when there are fewer than ten: nothing can be said by them.
        """
        table = max(sketches.values(), key=len, default=np.empty((0, 0)))
        if len(table) < BINS:
            return None
        return cls(tuple(Baseline.of(axis).thinned(POINTS) for axis in table.T))

    def moved(self, sketches: Mapping[int, Floats]) -> Moved:
        """How far those with as many axes lie from this; NaN with fewer than ten of them.

        ``psi`` and ``distance`` are the largest over the axes. ``chance`` allows for there being
        several (Bonferroni): at most 5 % of samples from one distribution pass it on any axis.
        """
        table = sketches.get(len(self.axes), np.empty((0, len(self.axes))))
        found = [axis.moved(values) for axis, values in zip(self.axes, table.T, strict=True)]
        first = found[0]
        return Moved(
            psi=max(each.psi for each in found),
            distance=max(each.distance for each in found),
            chance=chance(first.reference, first.window, len(found)),
            reference=first.reference,
            window=first.window,
        )
