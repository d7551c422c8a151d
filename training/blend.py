"""How much to listen to each of several models: weights that put validation rows in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from ranker.blend import BlendModel
from ranker.metrics import decided, order
from ranker.prediction import LengthModel, Prediction
from ranker.scale import Scale
from training.sources import Lengths

Floats = NDArray[np.float64]

_MOST_ROWS = 1500  # 1.1 million pairs: the weights are known far better than they matter
_LEAST_WEIGHT = 0.01  # a part that is hardly heard costs as much time as one that is


@dataclass(frozen=True, slots=True)
class BlendFit:
    """``weights`` add up to 1; 0 is that of a part that adds nothing. ``tau`` (Kendall's tau-b) and
    ``part_taus``, those of each part alone, are measured on the rows of the fit.
    """

    weights: tuple[float, ...]
    scales: tuple[Scale, ...]
    tau: float
    part_taus: tuple[float, ...]

    @property
    def heard(self) -> tuple[bool, ...]:
        """Which parts have a weight."""
        return tuple(weight > 0.0 for weight in self.weights)

    def model(self, parts: Sequence[LengthModel]) -> LengthModel:
        """The blend of those ``parts`` that have a weight; that part itself when it is alone."""
        heard = self.heard
        if sum(heard) == 1:
            return next(compress(parts, heard))
        return BlendModel(
            tuple(compress(parts, heard)),
            tuple(compress(self.weights, heard)),
            tuple(compress(self.scales, heard)),
        )

    def said(self, parts: Sequence[LengthModel], predictions: Sequence[Prediction]) -> Prediction:
        """What :meth:`model` of ``parts`` says where these say ``predictions``; asks none again."""
        model, kept = self.model(parts), list(compress(predictions, self.heard))
        return model.combine(kept) if isinstance(model, BlendModel) else kept[0]


def fit_blend(predictions: Sequence[Prediction], lengths: Lengths) -> BlendFit:
    """Weights for the parts whose ``predictions`` of the same validation rows are given.

    Scores are brought to mean 0 and spread 1; the weights are those of a logistic regression on
    pairs, ``P(i longer than j) = sigmoid(weights . (scores_i - scores_j))`` (Bradley & Terry 1952),
    over pairs whose order is decided, none below 0. With one number per part there is little to
    overfit. Nothing is random.

    Raises ``ValueError`` when there is no part, the rows differ in number, a score is not finite,
    or no two lengths are in a known order.
    """
    y, c = lengths.tokens, lengths.censored
    if not predictions or any(said.scores.shape != y.shape for said in predictions):
        raise ValueError(f"blend: every part must have {len(y)} scores, one per validation row")
    raw = np.column_stack([said.scores for said in predictions])
    if not np.all(np.isfinite(raw)):
        raise ValueError("blend: scores must be finite")
    scales = tuple(_scale(column) for column in raw.T)
    scores = np.column_stack([scale(column) for scale, column in zip(scales, raw.T, strict=True)])
    weights = _weights(scores, y, c)
    return BlendFit(
        tuple(float(weight) for weight in weights),
        scales,
        _tau(scores @ weights, y, c),
        tuple(_tau(column, y, c) for column in scores.T),
    )


def _scale(scores: Floats) -> Scale:
    spread = float(scores.std())
    slope = 1.0 / spread if spread > 0.0 else 1.0
    return Scale(-float(scores.mean()) * slope, slope)


def _tau(scores: Floats, tokens: Floats, censored: NDArray[np.bool_]) -> float:
    return order(scores, tokens, censored, resamples=0).tau


def _weights(scores: Floats, y: Floats, c: NDArray[np.bool_]) -> Floats:
    """[parts], adding up to 1."""
    from scipy.optimize import minimize

    rows = np.unique(np.linspace(0, len(y) - 1, min(len(y), _MOST_ROWS)).astype(np.int64))
    sign, _ = decided(y[rows], c[rows])
    longer, shorter = np.nonzero(sign > 0.0)
    if not len(longer):
        raise ValueError("blend: no two validation rows have lengths in a known order")
    gaps = scores[rows][longer] - scores[rows][shorter]

    def loss(weights: Floats) -> tuple[float, Floats]:
        margin = gaps @ weights
        wrong = 1.0 / (1.0 + np.exp(np.minimum(margin, 500.0)))
        return float(np.logaddexp(0.0, -margin).mean()), -(wrong @ gaps) / len(gaps)

    parts = scores.shape[1]
    even = np.full(parts, 1.0 / parts)
    # The bound keeps weights finite where some order puts every pair right.
    found = minimize(loss, even, jac=True, method="L-BFGS-B", bounds=[(0.0, 50.0)] * parts)
    weights = np.asarray(found.x, dtype=np.float64)
    if weights.sum() <= 0.0:
        return even
    weights[weights < _LEAST_WEIGHT * weights.sum()] = 0.0
    total: Floats = weights / weights.sum()
    return total
