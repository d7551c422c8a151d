"""Buckets of equal width, as Fu et al. (2024) train the classifiers that they compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from training.recipes.compare import Floats
from training.recipes.ssjf import class_scores

if TYPE_CHECKING:
    from torch import Tensor

#: Tokens at which Fu et al. cut a label: the context of the model they label for.
MOST = 8192


@dataclass(frozen=True, slots=True)
class Buckets:
    """Bucket ``k`` holds lengths from ``k * size`` on; what is longer than ``most`` is in the last.

    The score is the mean bucket.
    """

    size: int
    most: int = MOST

    @property
    def width(self) -> int:
        return -(-self.most // self.size)

    def targets(self, tokens: Floats) -> Floats:
        return np.minimum(tokens // self.size, self.width - 1)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        import torch

        return torch.nn.functional.cross_entropy(outputs, targets.long())

    def scores(self, outputs: Floats) -> Floats:
        return class_scores(outputs)
