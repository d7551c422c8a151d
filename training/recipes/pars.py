"""PARS: a margin between the scores of two prompts whose lengths clearly differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from training.recipes.compare import Floats

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Margin:
    """Pairs of a batch that differ by less than ``least_gap`` of the longer one are left out."""

    width: ClassVar[int] = 1
    margin: float = 1.0
    least_gap: float = 0.2

    def targets(self, tokens: Floats) -> Floats:
        return tokens

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        from ranker.losses.lengths import ListLengths
        from ranker.losses.margin import margin

        return margin(outputs.T, ListLengths.of(targets[None]), self.margin, self.least_gap)

    def scores(self, outputs: Floats) -> Floats:
        return outputs[:, 0]
