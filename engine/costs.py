"""Fit a cost model to steps that a real engine took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from engine.core.costs import CostModel

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """One step: its decodes, its prefilled tokens, context tokens decoded against, its seconds."""

    decodes: int
    prefill_tokens: int
    context_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Fit:
    """A cost model and how well it explains the steps it was fitted to.

    r_squared: share of the variance of step seconds explained. total_error: relative error of the
    sum of all steps, the one that a simulated makespan inherits.
    """

    cost: CostModel
    steps: int
    r_squared: float
    total_error: float


def fit(steps: Sequence[MeasuredStep], *, context: bool = False, trim: float = 0.02) -> Fit:
    """Least squares with coefficients >= 0.

    Exact by trying each subset of the three or four columns: least squares under sign constraints
    has its optimum at the unconstrained optimum of one of them. ``trim``: share of steps with the
    largest residuals left out of a second fit, because one pause of the machine would otherwise
    weigh like hundreds of steps. ``context`` fits the attention term too.

    Raises ``ValueError`` below 8 steps, on a step of no or negative time, or trim outside [0, .5).
    """
    if len(steps) < 8:
        raise ValueError(f"steps must hold at least 8 measurements, got {len(steps)}")
    if any(step.seconds <= 0.0 for step in steps):
        raise ValueError("steps must each have taken more than 0 seconds")
    if not 0.0 <= trim < 0.5:
        raise ValueError(f"trim must lie in [0, 0.5), got {trim}")
    rows = [(1.0, s.decodes, s.prefill_tokens, s.context_tokens * context) for s in steps]
    table = np.array(rows, dtype=np.float64)
    seconds = np.array([step.seconds for step in steps])
    weights = _non_negative(table, seconds)
    if dropped := int(trim * len(steps)):
        keep = np.argsort(np.abs(table @ weights - seconds))[:-dropped]
        weights = _non_negative(table[keep], seconds[keep])
    predicted = table @ weights
    spread = float(((seconds - seconds.mean()) ** 2).sum())
    base, decode, prefill, attention = map(float, weights)
    return Fit(
        cost=CostModel(base, decode, prefill, attention),
        steps=len(steps),
        r_squared=1.0 - float(((seconds - predicted) ** 2).sum()) / spread if spread else 0.0,
        total_error=float(predicted.sum() / seconds.sum()) - 1.0,
    )


def _non_negative(table: Floats, seconds: Floats) -> Floats:
    best, best_loss = np.zeros(table.shape[1]), float((seconds**2).sum())
    columns = [i for i in range(table.shape[1]) if table[:, i].any()]
    for size in range(1, len(columns) + 1):
        for chosen in combinations(columns, size):
            part, *_ = np.linalg.lstsq(table[:, chosen], seconds, rcond=None)
            loss = float(((table[:, chosen] @ part - seconds) ** 2).sum())
            if (part >= 0.0).all() and loss < best_loss:
                best = np.zeros(table.shape[1])
                best[list(chosen)] = part
                best_loss = loss
    return best
