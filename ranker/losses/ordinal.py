"""Binary questions over ordered cuts: is the answer longer than the k-th?

Frank & Hall 2001, "A Simple Approach to Ordinal Classification"; with all questions answered by one
network, Niu et al. 2016. The chances of "yes" add up to the expected number of cuts below the
answer, which orders prompts.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from ranker.losses.lengths import ListLengths


def ordinal(logits: Tensor, lengths: ListLengths, cuts: Tensor) -> Tensor:
    """Cross entropy in nats, averaged over cuts, draws and prompts.

    ``logits`` is ``[lists, size, cuts]``, ``cuts`` are ascending token counts; a length equal to a
    cut is not above it. A censored draw says yes to the cuts below its bound, yes at its bound
    (it was cut off there, so it is longer), and nothing about the cuts above.
    """
    logits = lengths.kept(logits)[:, :, None, :]
    tokens, censored = lengths.tokens[..., None], lengths.censored[..., None]
    above = (tokens > cuts) | (censored & (tokens >= cuts))
    told = lengths.mask[..., None] & (above | ~censored)
    target = above.to(logits.dtype).expand(told.shape)
    losses = F.binary_cross_entropy_with_logits(logits.expand(told.shape), target, reduction="none")
    weights = lengths.kept(lengths.weights)[:, :, None, None]
    draws = lengths.mask.sum().clamp(min=1)
    return (losses * weights).where(told, 0.0).sum() / (draws * len(cuts))
