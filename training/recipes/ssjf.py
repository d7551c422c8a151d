"""SSJF: a proxy model that regresses the length, or sorts it into classes by its percentiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from training.recipes.compare import Floats

if TYPE_CHECKING:
    from torch import Tensor

_PERCENTILES = (0.25, 0.5, 0.75, 0.99)


@dataclass(frozen=True, slots=True)
class Regression:
    """Token counts under L1 or squared error, in standard deviations from their mean."""

    width: ClassVar[int] = 1
    mean: float
    deviation: float
    squared: bool = False

    @classmethod
    def of(cls, tokens: Floats, *, squared: bool = False) -> Regression:
        return cls(float(tokens.mean()), max(float(tokens.std()), 1e-9), squared)

    def targets(self, tokens: Floats) -> Floats:
        return (tokens - self.mean) / self.deviation

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        gap = outputs[:, 0] - targets
        return (gap * gap if self.squared else gap.abs()).mean()

    def scores(self, outputs: Floats) -> Floats:
        return outputs[:, 0]


@dataclass(frozen=True, slots=True)
class Classes:
    """Classes of length between ``edges``, weighed against their share; the score is the mean
    class."""

    edges: tuple[float, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, tokens: Floats) -> Classes:
        edges = np.unique(np.quantile(tokens, _PERCENTILES))
        counts = np.bincount(np.searchsorted(edges, tokens, side="right"), minlength=len(edges) + 1)
        weights = np.where(counts > 0, 1.0 / np.maximum(counts, 1), 0.0)
        return cls(tuple(edges.tolist()), tuple((weights / weights.sum()).tolist()))

    @property
    def width(self) -> int:
        return len(self.edges) + 1

    def targets(self, tokens: Floats) -> Floats:
        return np.searchsorted(self.edges, tokens, side="right").astype(np.float64)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        import torch

        weights = torch.tensor(self.weights, dtype=outputs.dtype)
        return torch.nn.functional.cross_entropy(outputs, targets.long(), weight=weights)

    def scores(self, outputs: Floats) -> Floats:
        return class_scores(outputs)


def class_scores(outputs: Floats) -> Floats:
    """Log odds of ascending classes [n, classes] -> the mean class, [n]."""
    odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    means: Floats = odds @ np.arange(outputs.shape[1]) / odds.sum(axis=1)
    return means
