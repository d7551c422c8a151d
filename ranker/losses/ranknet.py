"""RankNet: a pair is a coin that lands the right way with the logistic of the score difference.

Burges et al. 2005, "Learning to Rank using Gradient Descent", section 3, with the target
probabilities of its equation 3 taken from several draws where there are several.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from ranker.losses.lengths import ListLengths
from ranker.losses.pairs import mean_over_pairs, preferences


def ranknet(scores: Tensor, lengths: ListLengths) -> Tensor:
    """Cross entropy between who is longer and who scores higher, over decided pairs, in nats."""
    scores = lengths.kept(scores)
    target, decided = preferences(lengths)
    margins = scores[:, :, None] - scores[:, None, :]
    losses = F.binary_cross_entropy_with_logits(margins, target, reduction="none")
    return mean_over_pairs(losses, decided, lengths)
