"""Which of two prompts is the longer, as far as their draws decide."""

from __future__ import annotations

from torch import Tensor

from ranker.losses.lengths import ListLengths


def preferences(lengths: ListLengths, least_gap: float = 0.0) -> tuple[Tensor, Tensor]:
    """``target`` and ``decided``, both ``[lists, size, size]``.

    ``target[l, i, j]`` is the share of decided pairs of draws in which ``i`` is longer than ``j``,
    equal ones counting one half; 0.5 where nothing is decided. ``decided[l, i, j]`` is the share of
    the pairs of draws that is decided; 0 on the diagonal and for padding. A bound decides only once
    it reaches the other's length, and at equality the one that was cut off is the longer; two
    bounds decide nothing, as in :mod:`ranker.metrics`.

    With ``least_gap``, pairs of draws that differ by less than that share of the longer are left
    undecided, and so are equal ones. A bound's gap is the least that the true one can be.
    """
    one, other = lengths.tokens[:, :, None, :, None], lengths.tokens[:, None, :, None, :]
    cut, other_cut = lengths.censored[:, :, None, :, None], lengths.censored[:, None, :, None, :]
    pairs = lengths.mask[:, :, None, :, None] & lengths.mask[:, None, :, None, :]
    longer = ~other_cut & ((one > other) | ((one == other) & cut))
    shorter = ~cut & ((other > one) | ((one == other) & other_cut))
    decided = pairs & (longer | shorter | (~cut & ~other_cut))
    if least_gap > 0.0:
        gap = (one - other).abs()
        decided = decided & (gap > 0.0) & (gap >= least_gap * one.maximum(other))
    dtype = lengths.tokens.dtype
    known = decided.sum(dim=(-2, -1)).to(dtype)
    wins = ((longer.to(dtype) - shorter.to(dtype) + 1.0) / 2.0 * decided).sum(dim=(-2, -1))
    target = (wins / known.clamp(min=1.0)).where(known > 0.0, wins.new_tensor(0.5))
    share = known / pairs.sum(dim=(-2, -1)).to(dtype).clamp(min=1.0)
    return target, share.tril(-1) + share.triu(1)


def mean_over_pairs(losses: Tensor, decided: Tensor, lengths: ListLengths) -> Tensor:
    """Losses of pairs ``[lists, size, size]``, averaged by how far each pair is decided.

    Weights of prompts scale the loss of their pairs, not its divisor: a batch of light prompts
    teaches less. 0, with a zero gradient, when no pair is decided.
    """
    weights = lengths.kept(lengths.weights)
    shares = decided * weights[:, :, None] * weights[:, None, :]
    return (losses * shares).sum() / decided.sum().clamp(min=1e-9)
