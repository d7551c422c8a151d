"""ListMLE: the likelihood of the order, shortest answer first.

Xia et al. 2008, "Listwise Approach to Learning to Rank", section 4; Fu et al. 2024 (arXiv
2408.15792) train their scheduler with it, shortest first, on lengths in bins of 10. The
Plackett-Luce model of that order, with exp(-score) as the worth of a prompt, is Cox's proportional
hazards model (Cox 1972), in which a censored row is nothing new: it stands in the list as long as
its bound says so. Equal lengths share one denominator (Breslow 1974), so no order among them is
made up.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ranker.losses.lengths import ListLengths


def listmle(scores: Tensor, lengths: ListLengths, width: float = 0.0) -> Tensor:
    """Negative log likelihood of the order, a prompt, averaged over draws and lists.

    A prompt of known length is drawn from among those known not to be shorter. A censored one is
    never drawn, and is among the others where its bound reaches the length that is: what it would
    have been beyond that changes nothing. With ``width`` lengths and bounds are rounded down to
    multiples of it before they are ordered.
    """
    scores = lengths.kept(scores)
    total, count = scores.new_zeros(()), scores.new_zeros(())
    for draw in lengths.draws():
        tokens = draw.tokens[..., 0]
        if width > 0.0:
            tokens = (tokens / width).floor()
        here = draw.mask[..., 0]
        stage = here & ~draw.censored[..., 0]
        # [lists, stage, prompt]: is the prompt still in the list when the stage's turn comes? The
        # diagonal keeps the sum of a stage that does not take place from being empty.
        among = (tokens[:, :, None] <= tokens[:, None, :]) & here[:, None, :]
        among = among | torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device)
        worth = torch.where(among, -scores[:, None, :], -torch.inf)
        losses = torch.logsumexp(worth, dim=2) + scores
        weights = lengths.kept(lengths.weights)
        total = total + (losses * weights).where(stage, 0.0).sum()
        count = count + here.sum()
    return total / count.clamp(min=1)
