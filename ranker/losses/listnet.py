"""ListNet: which prompt is the top one, as a distribution.

Cao et al. 2007, "Learning to Rank: From Pairwise Approach to Listwise Approach", section 4.2, with
``log(1 + tokens)`` as the judgement: the chance of being the top one is then a prompt's share of
the tokens of the list.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ranker.losses.lengths import ListLengths


def listnet(scores: Tensor, lengths: ListLengths) -> Tensor:
    """Divergence of the scores' top-one distribution from that of the lengths, in nats a list.

    Equal to the paper's cross entropy but for the entropy of the lengths, a constant. Among prompts
    of known length that is all. A censored one is then set against all of those together: is it or
    one of them the top? Its share is at least what the bound makes it, so that it adds the
    divergence of that question while the scores give it less, and nothing once they give it more
    (for one censored row, the chain rule of the divergence splits the whole in just this way).
    """
    scores = lengths.kept(scores)
    weights = lengths.kept(lengths.weights)
    total, lists = scores.new_zeros(()), scores.new_zeros(())
    for draw in lengths.draws():
        here = draw.mask[..., 0]
        worth = draw.tokens[..., 0].log1p().where(here, 0.0)
        known = here & ~draw.censored[..., 0]
        bounds = here & draw.censored[..., 0] & known.any(dim=1, keepdim=True)
        log_p, log_q = _log_shares(worth, known), _log_shares(scores, known)
        share = log_p.exp().where(known, 0.0)
        # A list counts as its prompts do, each by its share of the tokens.
        counts = (share * weights).sum(dim=1)
        top = counts * (share * (log_p - log_q)).sum(dim=1)
        # Log odds of each censored row against all the known ones.
        wanted = worth - _log_sum(worth, known)
        given = scores - _log_sum(scores, known)
        behind = _bernoulli_divergence(wanted, given) * weights
        total = total + top.sum() + behind.where(bounds & (given < wanted), 0.0).sum()
        lists = lists + here.any(dim=1).sum()
    return total / lists.clamp(min=1)


def _log_sum(values: Tensor, among: Tensor) -> Tensor:
    """``[lists, 1]``; 0 where a list has none, which is never used."""
    some = among.any(dim=1, keepdim=True)
    inside = torch.where(among | ~some, values, -torch.inf)
    return torch.logsumexp(inside, dim=1, keepdim=True).where(some, 0.0)


def _log_shares(values: Tensor, among: Tensor) -> Tensor:
    return torch.where(among, values - _log_sum(values, among), 0.0)


def _bernoulli_divergence(wanted: Tensor, given: Tensor) -> Tensor:
    """Of two chances given as log odds."""
    p = torch.sigmoid(wanted)
    yes = F.logsigmoid(wanted) - F.logsigmoid(given)
    no = F.logsigmoid(-wanted) - F.logsigmoid(-given)
    return p * yes + (1.0 - p) * no
