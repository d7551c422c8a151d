"""The window of one series in depth: what the board shows beside the cohort's statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drift.bands import by_band
from drift.cohorts import coverage
from drift.features import Baselines, Columns
from drift.figures import Band, Density, Level, Shift, known
from ranker.types import Outcome

#: Levels at which calibration is shown.
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


@dataclass(frozen=True, slots=True)
class Detail:
    """See ``drift.figures``."""

    calibration: tuple[Level, ...]
    bands: tuple[Band, ...]
    density: Density

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Detail:
        """From a window in arrival order; some 10 ms for 500 outcomes."""
        scored = [o for o in outcomes if o.forecast is not None]
        columns = Columns.of(scored)
        return cls(
            calibration=tuple(Level(p, known(coverage(scored, p))) for p in LEVELS),
            bands=tuple(
                Band(b.low, b.high, b.outcomes, b.pairs, known(b.accuracy))
                for b in by_band(columns.score, columns.tokens, columns.censored)
            ),
            density=density(scored),
        )


def shifts(outcomes: Sequence[Outcome], baselines: Baselines | None) -> tuple[Shift, ...]:
    """Every column against the reference; none while there is no reference."""
    if baselines is None:
        return ()
    moved = baselines.moved(Columns.of(outcomes))
    return tuple(
        Shift(name, known(m.psi), known(m.distance), known(m.chance), m.reference, m.window)
        for name, m in moved.items()
    )


def density(outcomes: Sequence[Outcome]) -> Density:
    """Forecast median against realised length, in bins that double from 1 token."""
    whole = [
        (o.forecast.median, o.output_tokens)
        for o in outcomes
        if o.forecast is not None and not o.finish_reason.censored
    ]
    left_out = sum(o.forecast is not None for o in outcomes) - len(whole)
    top = max((max(pair) for pair in whole), default=1.0)
    edges = np.concatenate(([0.0], 2.0 ** np.arange(0, math.ceil(math.log2(top + 1.0)) + 1)))
    table = np.array(whole, dtype=np.float64).reshape(-1, 2)
    counts, _, _ = np.histogram2d(table[:, 0], table[:, 1], bins=(edges, edges))
    rows = tuple(tuple(int(count) for count in row) for row in counts)
    return Density(tuple(float(edge) for edge in edges), rows, left_out)
