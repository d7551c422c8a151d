"""The loss of a batch: a weighted sum over the heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from ranker.losses.lambdaloss import lambdaloss
from ranker.losses.lengths import ListLengths
from ranker.losses.listmle import listmle
from ranker.losses.listnet import listnet
from ranker.losses.log_t import log_t
from ranker.losses.margin import margin
from ranker.losses.ordinal import ordinal
from ranker.losses.quantile import quantile
from ranker.losses.ranknet import ranknet
from training.encoder.config import HEAD_OF, LossWeights


@dataclass(frozen=True, slots=True)
class Objective:
    """``cuts`` of the ordinal loss, ascending token counts; ``levels`` of the quantile loss;
    ``list_width`` of ListMLE."""

    weights: LossWeights
    cuts: Tensor
    levels: Sequence[float]
    list_width: float = 0.0

    def losses(self, heads: Mapping[str, Tensor], lengths: ListLengths) -> dict[str, Tensor]:
        """Each loss that takes part, not yet weighted. ``heads`` are outputs ``[n, width]`` for
        the ``n`` prompts of the one list in ``lengths``."""
        return {
            name: self._functions()[name](heads[HEAD_OF[name]][None], lengths)
            for name in self.weights.active
        }

    def total(self, losses: Mapping[str, Tensor]) -> Tensor:
        weighted = [weight * losses[name] for name, weight in self.weights.active.items()]
        return sum(weighted[1:], weighted[0])

    def _functions(self) -> Mapping[str, Callable[[Tensor, ListLengths], Tensor]]:
        return {
            "ranknet": lambda head, y: ranknet(head[..., 0], y),
            "margin": lambda head, y: margin(head[..., 0], y),
            "listnet": lambda head, y: listnet(head[..., 0], y),
            "listmle": lambda head, y: listmle(head[..., 0], y, self.list_width),
            "lambdaloss": lambda head, y: lambdaloss(head[..., 0], y),
            "ordinal": lambda head, y: ordinal(head, y, self.cuts),
            "quantile": lambda head, y: quantile(head, y, self.levels),
            "log_t": lambda head, y: log_t(head[..., 0], head[..., 1], y),
        }
