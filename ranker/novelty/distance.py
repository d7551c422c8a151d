"""How far the features of a text are from those of the training prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ranker.features import FEATURES, extract
from ranker.window import Window

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Distance:
    """Squared Mahalanobis distance of signed log features: ``centre``, ``spread`` [features],
    ``precision`` [features, features]."""

    centre: Floats
    spread: Floats
    precision: Floats

    @classmethod
    def fit(cls, prompts: Sequence[str], window: Window, shrinkage: float) -> Self:
        features = _signed_log(extract(prompts, window))
        centre, spread = features.mean(axis=0), features.std(axis=0) + 1e-3
        covariance = np.cov(((features - centre) / spread).T)
        identity = np.eye(len(FEATURES)) * np.trace(covariance) / len(FEATURES)
        mixed = (1.0 - shrinkage) * covariance + shrinkage * identity
        return cls(centre, spread, np.linalg.inv(mixed))

    def of(self, prompts: Sequence[str], window: Window) -> Floats:
        """[n]. Row by row: a product of matrices would round by how many rows there are."""
        x = (_signed_log(extract(prompts, window)) - self.centre) / self.spread
        return np.array([row @ self.precision @ row for row in x], dtype=np.float64)

    def arrays(self) -> dict[str, Floats]:
        return {"centre": self.centre, "spread": self.spread, "precision": self.precision}

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Raises ``ValueError`` or ``KeyError`` for parts that do not fit together."""
        size = len(FEATURES)
        shapes = {"centre": (size,), "spread": (size,), "precision": (size, size)}
        for name, shape in shapes.items():
            if arrays[name].shape != shape or not np.all(np.isfinite(arrays[name])):
                raise ValueError(f"{name} must be finite and of shape {shape}")
        if np.any(arrays["spread"] <= 0.0):
            raise ValueError("spread must be positive")
        return cls(**{name: arrays[name] for name in shapes})


def _signed_log(table: NDArray[np.float32]) -> Floats:
    """Counts run over decades, a few are negative codes."""
    wide = table.astype(np.float64)
    return np.asarray(np.sign(wide) * np.log1p(np.abs(wide)))
