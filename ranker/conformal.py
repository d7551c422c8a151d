"""A model's own quantiles, moved until as many lengths lie below them as they say.

Conformalised quantile regression (Romano, Patterson & Candes 2019, arXiv 1905.03222), one-sided
at every level, in log tokens: the conformity score of a row is ``log(1 + length) - log(1 +
quantile)``, the offset of level ``p`` the ``p (n + 1) / n`` quantile of the scores. The score of a
censored row is a lower bound, as its length is, so that quantile is the Kaplan-Meier curve's: right
when a row's score does not depend on its bound, as with a head that is off alike everywhere.

Offsets make quantiles true on average, not sharp. A head that learnt noise stays noisy, so that the
quantiles first shrink towards the marginal ones, by the share that cross-validation prefers; a head
that knows nothing ends at the marginal itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranker.calibration import CalibrationConfig, pinball
from ranker.prediction import Prediction
from ranker.survival import weighted_quantiles
from ranker.types import check_levels
from ranker.validation import fold_numbers, simplest

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_SHARES = tuple(step / 10 for step in range(1, 11))


@dataclass(frozen=True, slots=True)
class Conformal:
    """``log(1 + q)`` of the model shrinks to ``share`` of its distance from the marginal, and
    moves by ``offsets``.

    Raises ``ValueError`` when the shapes differ, a number is not finite, levels do not ascend, the
    marginal descends or ``share`` lies outside [0, 1].
    """

    kind: ClassVar[str] = "conformal"

    marginal: Floats  #: [levels], output tokens
    offsets: Floats  #: [levels], log tokens
    share: float
    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        check_levels(self.levels, "conformal.levels")
        shape = (len(self.levels),)
        if self.marginal.shape != shape or self.offsets.shape != shape:
            raise ValueError("conformal.marginal and conformal.offsets must have one value a level")
        if not (np.all(np.isfinite(self.marginal)) and np.all(np.isfinite(self.offsets))):
            raise ValueError("conformal.marginal and conformal.offsets must be finite")
        if np.any(self.marginal < 0.0) or np.any(np.diff(self.marginal) < 0.0):
            raise ValueError("conformal.marginal must not be negative and not descend")
        if not 0.0 <= self.share <= 1.0:
            raise ValueError(f"conformal.share must lie between 0 and 1, got {self.share}")

    def quantiles(self, prediction: Prediction) -> Floats:
        """[n, levels], output tokens, not descending; see :class:`ranker.calibrator.Calibrator`."""
        moved = _shrunk(_head(prediction, self.levels), self.marginal, self.share) + self.offsets
        return np.maximum.accumulate(np.maximum(np.expm1(moved), 0.0), axis=1)

    def arrays(self) -> dict[str, Floats]:
        return {"marginal": self.marginal, "offsets": self.offsets}

    def numbers(self) -> dict[str, Any]:
        return {"levels": list(self.levels), "share": self.share}

    @classmethod
    def restore(cls, arrays: Mapping[str, Floats], numbers: Mapping[str, Any]) -> Conformal:
        share, levels = float(numbers["share"]), tuple(numbers["levels"])
        return cls(arrays["marginal"], arrays["offsets"], share, levels)


def fit(
    prediction: Prediction,
    tokens: Floats,
    censored: Bools,
    groups: NDArray[np.int64],
    config: CalibrationConfig,
) -> Conformal:
    """Of rows that the model was not trained on; vectors of one length.

    Raises ``ValueError`` when the prediction has no quantiles at ``config.levels``.
    """
    head = _head(prediction, config.levels)
    fold = fold_numbers(prediction.scores, groups, config.folds)
    losses = np.empty((1 + len(_SHARES), len(tokens)))
    for held in range(config.folds):
        out = fold == held
        for i, share in enumerate((0.0, *_SHARES)):
            fitted = _fit(head[~out], tokens[~out], censored[~out], share, config.levels)
            quantiles = fitted.quantiles(Prediction(prediction.scores[out], head[out]))
            losses[i, out] = pinball(quantiles, tokens[out], censored[out], config.levels)
    # Only the marginal is simpler than the others; among those the best is as simple as any.
    best = 1 + int(np.argmin(losses[1:].mean(axis=1)))
    chosen = (0, best)[simplest(losses[[0, best]], groups)]
    return _fit(head, tokens, censored, (0.0, *_SHARES)[chosen], config.levels)


def _fit(
    head: Floats, tokens: Floats, censored: Bools, share: float, levels: Sequence[float]
) -> Conformal:
    n = len(tokens)
    even = np.ones(n)
    marginal = weighted_quantiles(tokens, censored, even, levels)
    centre = _shrunk(head, marginal, share)
    offsets = np.empty(len(levels))
    for k, p in enumerate(levels):
        # The curve lives on positive numbers, so it is of (1 + length) / (1 + quantile).
        ratios = np.exp(np.log1p(tokens) - centre[:, k])
        level = min(p * (n + 1) / n, 1.0 - 0.5 / n)
        offsets[k] = math.log(weighted_quantiles(ratios, censored, even, (level,))[0])
    return Conformal(marginal, offsets, share, tuple(levels))


def _shrunk(head: Floats, marginal: Floats, share: float) -> Floats:
    """[n, levels], log tokens."""
    middle = np.log1p(marginal)
    return middle + share * (np.log1p(head) - middle)


def _head(prediction: Prediction, levels: Sequence[float]) -> Floats:
    if prediction.quantiles is None:
        raise ValueError("conformal: the model gives no quantiles; calibrate its scores instead")
    if prediction.quantiles.shape[1:] != (len(levels),):
        raise ValueError(
            f"conformal: the model gives {prediction.quantiles.shape[-1]} quantiles, the "
            f"calibration has {len(levels)} levels"
        )
    return np.maximum(prediction.quantiles, 0.0)
