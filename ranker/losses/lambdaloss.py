"""LambdaLoss: pairs weighted by what their exchange costs a ranking measure.

Wang et al. 2018, "The LambdaLoss Framework for Ranking Metric Optimization", NDCG-Loss2++.
The queue decides what the top and the gains are: served first is what is predicted
shortest, and ``log(1 + tokens)`` is the gain, linear, not exponential as for web pages: the
exchange of two answers then costs by the ratio of their lengths, and one answer of 4,000 tokens
does not drown the rest.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from ranker.losses.lengths import ListLengths
from ranker.losses.pairs import preferences


def lambdaloss(scores: Tensor, lengths: ListLengths, mu: float = 10.0) -> Tensor:
    """Logistic loss of decided pairs in bits, averaged with the weights of NDCG-Loss2++.

    The weight of a pair is its gap in gain times ``rho + mu * delta``: the difference of the
    discounts at its two places, and that between places as far apart as the two are. Weights are
    constants to the gradient. They are divided by their sum over all lists instead of by the ideal
    gain, which a bound leaves unknown; a bound's gap is the least that the true one can be.
    """
    scores = lengths.kept(scores)
    rho, delta = _discount_gaps(scores.detach(), lengths.present)
    margins = scores[:, :, None] - scores[:, None, :]
    worth = lengths.kept(lengths.weights)
    total, scale = scores.new_zeros(()), scores.new_zeros(())
    for draw in lengths.draws():
        target, decided = preferences(draw)
        gains = draw.tokens[..., 0].log1p()
        gap = (gains[:, :, None] - gains[:, None, :]).abs()
        weights = (gap * (rho + mu * delta) * decided).where(target > 0.5, 0.0)
        losses = F.softplus(-margins) / math.log(2.0)
        total = total + (losses * weights * worth[:, :, None] * worth[:, None, :]).sum()
        scale = scale + weights.sum()
    return total / scale.clamp(min=1e-9)


def _discount_gaps(scores: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """``|1/D(i) - 1/D(j)|`` and ``|1/D(d) - 1/D(d + 1)|`` with ``d`` the distance of the places,
    both ``[lists, size, size]``; ``D(place) = log2(1 + place)``, places from 1, lowest score first.
    """
    order = torch.where(present, scores, torch.inf).argsort(dim=1, stable=True)
    place = order.argsort(dim=1).to(scores.dtype) + 1.0
    discount = 1.0 / torch.log2(1.0 + place)
    rho = (discount[:, :, None] - discount[:, None, :]).abs()
    apart = (place[:, :, None] - place[:, None, :]).abs().clamp(min=1.0)
    delta = (1.0 / torch.log2(1.0 + apart) - 1.0 / torch.log2(2.0 + apart)).abs()
    return rho, delta
