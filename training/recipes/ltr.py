"""LTR: ListMLE over lists of a batch, on lengths in steps of ten (Fu et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from training.recipes.buckets import MOST
from training.recipes.compare import Floats

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class ListMle:
    """``step`` tokens make a grade; equal grades are in random order there, one group here."""

    width: ClassVar[int] = 1
    step: int = 10
    most: int = MOST

    def targets(self, tokens: Floats) -> Floats:
        return np.minimum(tokens, self.most)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        from ranker.losses.lengths import ListLengths
        from ranker.losses.listmle import listmle

        return listmle(outputs.T, ListLengths.of(targets[None]), float(self.step))

    def scores(self, outputs: Floats) -> Floats:
        return outputs[:, 0]
