"""Random lists with everything that lists can have, and each loss as a function of one tensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
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
from ranker.types import LEVELS
from tests.ranker.losses.reference import Lists

CUTS = (5.0, 20.0, 60.0)
Loss = Callable[[Tensor, ListLengths], Tensor]

RANKING: dict[str, Loss] = {
    "ranknet": ranknet,
    "margin": margin,
    "listnet": listnet,
    "listmle": listmle,
    "lambdaloss": lambdaloss,
}
#: Every loss, of ``[lists, size, WIDTH]``: a head is as wide as it needs.
WIDTH = len(LEVELS)
LOSSES: dict[str, Loss] = {
    **{name: (lambda head, y, f=f: f(head[..., 0], y)) for name, f in RANKING.items()},
    "binned": lambda head, y: listmle(head[..., 0], y, 10.0),
    "ordinal": lambda head, y: ordinal(head[..., :3], y, head.new_tensor(CUTS)),
    "quantile": lambda head, y: quantile(head, y, LEVELS),
    "log_t": lambda head, y: log_t(head[..., 0], head[..., 1].abs() + 0.5, y),
}


def random_lists(seed: int, lists: int = 3, size: int = 6, draws: int = 3) -> Lists:
    """Ties, bounds, prompts without a draw, weights."""
    rng = np.random.default_rng(seed)
    shape = (lists, size, draws)
    return Lists(
        tokens=rng.choice([0, 3, 5, 19, 20, 41, 47, 60, 90, 400], shape).astype(np.float64),
        censored=rng.random(shape) < 0.3,
        mask=rng.random(shape) < 0.7,
        weights=rng.choice([0.5, 1.0], shape[:2]),
    )


def tensors(lists: Lists, dtype: torch.dtype = torch.float64) -> ListLengths:
    return ListLengths(
        torch.tensor(lists.tokens, dtype=dtype),
        torch.tensor(lists.censored),
        torch.tensor(lists.mask),
        torch.tensor(lists.weights, dtype=dtype),
    )


def random_head(seed: int, lists: Lists) -> Tensor:
    rng = np.random.default_rng(seed + 1000)
    return torch.tensor(rng.normal(0.0, 2.0, (*lists.tokens.shape[:2], WIDTH)))
