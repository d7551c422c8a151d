"""Score -> quantiles of output tokens, honest about what the score does not know.

Around each of a few knots on the score axis, the lengths of held-out rows with nearby scores give
a Kaplan-Meier curve (Kaplan & Meier 1958; kernel weights: Beran 1981), so that a censored row
counts as a lower bound. How near is "nearby" is chosen by cross-validated quantile loss, widest
first among those within one standard error of the best (Breiman et al. 1984): a ranker that knows
nothing ends at the widest, where every score gets the same, marginal, quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranker.prediction import Prediction
from ranker.survival import weighted_quantiles
from ranker.types import LEVELS, check_levels
from ranker.validation import fold_numbers, simplest

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CalibrationConfig:
    """``bandwidths`` are half-widths of the kernel as shares of the rows; infinity = all alike."""

    knots: int = 25
    bandwidths: tuple[float, ...] = (0.08, 0.12, 0.18, 0.27, 0.4, math.inf)
    folds: int = 5
    levels: tuple[float, ...] = LEVELS

    def __post_init__(self) -> None:
        if self.knots < 2:
            raise ValueError(f"calibration.knots must be at least 2, got {self.knots}")
        if not self.bandwidths or any(not b > 0.0 for b in self.bandwidths):
            raise ValueError("calibration.bandwidths must be positive numbers, at least one")
        if self.folds < 2:
            raise ValueError(f"calibration.folds must be at least 2, got {self.folds}")
        check_levels(self.levels, "calibration.levels")


@dataclass(frozen=True, slots=True)
class Calibration:
    """``table[k]`` holds the quantiles at score ``knots[k]``, linear between, flat outside.

    ``bandwidth`` is the chosen one. Raises ``ValueError`` when knots or levels do not ascend, the
    table does not fit them, or a quantile descends along either axis.
    """

    kind: ClassVar[str] = "score-table"

    knots: Floats  #: [knots], scores, strictly ascending
    table: Floats  #: [knots, levels], output tokens
    levels: tuple[float, ...]
    bandwidth: float

    def __post_init__(self) -> None:
        if self.knots.ndim != 1 or not len(self.knots) or np.any(np.diff(self.knots) <= 0.0):
            raise ValueError("calibration.knots must be a strictly ascending vector")
        check_levels(self.levels, "calibration.levels")
        if self.table.shape != (len(self.knots), len(self.levels)):
            raise ValueError(
                f"calibration.table must have shape {(len(self.knots), len(self.levels))}, "
                f"got {self.table.shape}"
            )
        if not np.all(np.isfinite(self.table)) or np.any(self.table < 0.0):
            raise ValueError("calibration.table must hold finite, non-negative token counts")
        if np.any(np.diff(self.table, axis=1) < 0.0) or np.any(np.diff(self.table, axis=0) < 0.0):
            raise ValueError("calibration.table must not descend, neither by level nor by score")

    def quantiles(self, prediction: Prediction) -> Floats:
        """[n, levels], output tokens, monotone in score and level; see :class:`Calibrator`."""
        s = np.clip(prediction.scores, self.knots[0], self.knots[-1])
        right = np.clip(np.searchsorted(self.knots, s), 1, max(1, len(self.knots) - 1))
        if len(self.knots) == 1:
            return np.repeat(self.table, len(s), axis=0)
        low, high = self.knots[right - 1], self.knots[right]
        share = ((s - low) / (high - low))[:, None]
        # A convex combination, not low + share * (high - low): rounding must not break the order.
        mixed = (1.0 - share) * self.table[right - 1] + share * self.table[right]
        return np.maximum.accumulate(mixed, axis=1)

    def arrays(self) -> dict[str, Floats]:
        return {"knots": self.knots, "table": self.table}

    def numbers(self) -> dict[str, Any]:
        wide = math.isinf(self.bandwidth)
        return {"levels": list(self.levels), "bandwidth": None if wide else self.bandwidth}

    @classmethod
    def restore(cls, arrays: Mapping[str, Floats], numbers: Mapping[str, Any]) -> Calibration:
        bandwidth = numbers["bandwidth"]
        return cls(
            arrays["knots"],
            arrays["table"],
            tuple(numbers["levels"]),
            math.inf if bandwidth is None else float(bandwidth),
        )


def fit(
    scores: ArrayLike,
    tokens: ArrayLike,
    censored: ArrayLike,
    config: CalibrationConfig | None = None,
    *,
    groups: ArrayLike | None = None,
) -> Calibration:
    """Calibrate on rows that the ranker was not trained on; all are vectors of one length.

    ``censored`` marks lower bounds; rows of one prompt share a number in ``groups``, so that none
    is judged by another. Raises ``ValueError`` when the lengths differ, a number is not finite or
    there are fewer than 20 rows, too few to speak of a distribution.
    """
    return fit_checked(*checked(scores, tokens, censored, groups), config or CalibrationConfig())


def fit_checked(
    scores: Floats,
    tokens: Floats,
    censored: NDArray[np.bool_],
    groups: NDArray[np.int64],
    config: CalibrationConfig,
) -> Calibration:
    """As :func:`fit`, of rows that went through :func:`checked`, however few."""
    order = np.argsort(scores, kind="stable")
    s, y, c = scores[order], tokens[order], censored[order]
    bandwidth = _choose(s, y, c, groups[order], config)
    positions, knots = _knots(s, config.knots)
    table = _table(positions, _ranks(s), y, c, bandwidth, config.levels)
    return Calibration(knots, table, config.levels, bandwidth)


def checked(
    scores: ArrayLike, tokens: ArrayLike, censored: ArrayLike, groups: ArrayLike | None
) -> tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.int64]]:
    """The four as vectors that can be calibrated on; see :func:`fit` for what it raises. Without
    ``groups`` each row is one of its own."""
    s = np.asarray(scores, dtype=np.float64)
    y = np.asarray(tokens, dtype=np.float64)
    c = np.asarray(censored, dtype=np.bool_)
    if not (s.ndim == 1 and s.shape == y.shape == c.shape):
        raise ValueError(
            f"calibration: scores, tokens and censored must be vectors of one length, got "
            f"{s.shape}, {y.shape}, {c.shape}"
        )
    if len(s) < 20:
        raise ValueError(f"calibration: needs at least 20 rows, got {len(s)}; add validation data")
    if not (np.all(np.isfinite(s)) and np.all(np.isfinite(y))) or np.any(y < 0.0):
        raise ValueError("calibration: scores must be finite, tokens finite and non-negative")
    group = np.arange(len(s)) if groups is None else np.asarray(groups, dtype=np.int64)
    if group.shape != s.shape:
        raise ValueError(f"calibration: groups must have shape {s.shape}, got {group.shape}")
    return s, y, c, group


def _ranks(ordered: Floats) -> Floats:
    """Mid-ranks of ascending scores as shares in (0, 1); equal scores share one rank."""
    left = np.searchsorted(ordered, ordered, side="left")
    right = np.searchsorted(ordered, ordered, side="right")
    return (left + right) / (2.0 * len(ordered))


def _knots(ordered: Floats, number: int) -> tuple[Floats, Floats]:
    """Knots evenly spread over the rows: their rank positions and their scores."""
    knots = np.unique(np.quantile(ordered, np.linspace(0.0, 1.0, number), method="nearest"))
    left = np.searchsorted(ordered, knots, side="left")
    right = np.searchsorted(ordered, knots, side="right")
    return (left + right) / (2.0 * len(ordered)), knots


def _table(
    positions: Floats,
    ranks: Floats,
    tokens: Floats,
    censored: NDArray[np.bool_],
    bandwidth: float,
    levels: Sequence[float],
) -> Floats:
    if math.isinf(bandwidth):
        row = weighted_quantiles(tokens, censored, np.ones(len(tokens)), levels)
        return np.tile(row, (len(positions), 1))
    rows = []
    for position in positions:
        # Epanechnikov kernel; at an end the window keeps its width and becomes one-sided.
        away = (ranks - position) / bandwidth
        weights = np.maximum(0.0, 1.0 - away * away)
        rows.append(weighted_quantiles(tokens, censored, weights, levels))
    return _monotone(np.array(rows))


def _monotone(table: Floats) -> Floats:
    """The nearest table that does not descend by score, then by level."""
    from sklearn.isotonic import isotonic_regression

    smooth = np.column_stack([isotonic_regression(column) for column in np.log1p(table).T])
    # Pooling keeps an order between levels that held in every row; rounding may not.
    return np.maximum.accumulate(np.maximum.accumulate(np.expm1(smooth), axis=0), axis=1)


def _choose(
    scores: Floats,
    tokens: Floats,
    censored: NDArray[np.bool_],
    groups: NDArray[np.int64],
    config: CalibrationConfig,
) -> float:
    wide_first = sorted(set(config.bandwidths), reverse=True)
    if len(wide_first) == 1:
        return wide_first[0]
    fold = fold_numbers(scores, groups, config.folds)
    losses = np.empty((len(wide_first), len(scores)))
    for held in range(config.folds):
        out = fold == held
        inside = (tokens[~out], censored[~out])
        positions, knots = _knots(scores[~out], config.knots)
        ranks = _ranks(scores[~out])
        for i, bandwidth in enumerate(wide_first):
            table = _table(positions, ranks, *inside, bandwidth, config.levels)
            fitted = Calibration(knots, table, config.levels, bandwidth)
            quantiles = fitted.quantiles(Prediction(scores[out]))
            losses[i, out] = pinball(quantiles, tokens[out], censored[out], config.levels)
    return wide_first[simplest(losses, groups)]


def pinball(
    quantiles: Floats, tokens: ArrayLike, censored: ArrayLike, levels: Sequence[float]
) -> Floats:
    """Quantile loss (Koenker & Bassett 1978) in log tokens, averaged over levels, one per row.

    A censored row is compared up to its bound, as is right when the bound is the limit in force:
    the quantile of ``min(length, limit)`` is ``min(quantile, limit)``.
    """
    y = np.asarray(tokens, dtype=np.float64)[:, None]
    c = np.asarray(censored, dtype=np.bool_)[:, None]
    p = np.asarray(levels, dtype=np.float64)[None, :]
    gap = np.log1p(y) - np.log1p(np.where(c, np.minimum(quantiles, y), quantiles))
    loss: Floats = np.maximum(p * gap, (p - 1.0) * gap).mean(axis=1)
    return loss
