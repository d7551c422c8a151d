"""Scores of one served model on a scale that all served models share: expected log tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranker.survival import weighted_quantiles

Floats = NDArray[np.float64]

_GROUPS = 20
#: Slope of a score that orders nothing, as a share of the spread of log lengths: small enough not
#: to matter between models, above 0 so that the order within one stays as it was.
_LEAST = 1e-3


@dataclass(frozen=True, slots=True)
class Scale:
    """``offset + slope * score``. A positive slope leaves the order within a model unchanged.

    Raises ``ValueError`` when a number is not finite or the slope is not positive.
    """

    offset: float = 0.0
    slope: float = 1.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.offset):
            raise ValueError(f"scale.offset must be finite, got {self.offset}")
        if not (math.isfinite(self.slope) and self.slope > 0.0):
            raise ValueError(f"scale.slope must be finite and above 0, got {self.slope}")

    def __call__(self, scores: Floats) -> Floats:
        """[n] -> [n]."""
        return self.offset + self.slope * scores


def fit(scores: ArrayLike, tokens: ArrayLike, censored: ArrayLike) -> Scale:
    """Least squares of log tokens on score, over medians of groups of rows with nearby scores.

    Medians, because that of a group with bounds in it is known (Kaplan-Meier) where its mean is
    not. Vectors of one length; raises ``ValueError`` when they are not, or are empty.
    """
    s = np.asarray(scores, dtype=np.float64)
    y = np.asarray(tokens, dtype=np.float64)
    c = np.asarray(censored, dtype=np.bool_)
    if not (s.ndim == 1 and s.shape == y.shape == c.shape and len(s)):
        raise ValueError(
            f"scale: scores, tokens and censored must be vectors of one length, got {s.shape}, "
            f"{y.shape}, {c.shape}"
        )
    groups = np.array_split(np.argsort(s, kind="stable"), min(_GROUPS, len(s)))
    x = np.array([s[rows].mean() for rows in groups])
    medians = np.array(
        [weighted_quantiles(y[rows], c[rows], np.ones(len(rows)), (0.5,))[0] for rows in groups]
    )
    told = medians <= [y[rows].max() for rows in groups]
    if np.count_nonzero(told) > 1:  # a median beyond all bounds is an assumption
        x, medians = x[told], medians[told]
    log = np.log1p(medians)
    spread = float(x.std())
    if spread == 0.0:
        return Scale(float(log.mean()), _LEAST)
    slope = float(((x - x.mean()) * (log - log.mean())).mean()) / spread**2
    slope = max(slope, _LEAST * max(float(log.std()), 1.0) / spread)
    return Scale(float(log.mean() - slope * x.mean()), slope)
