"""Margin ranking with a filter, as PARS trains (arXiv 2510.03243).

A pair counts when the lengths differ by at least 20 % of the longer: smaller gaps are noise of
sampling, and teaching their order teaches the noise.
"""

from __future__ import annotations

from torch import Tensor

from ranker.losses.lengths import ListLengths
from ranker.losses.pairs import mean_over_pairs, preferences


def margin(
    scores: Tensor, lengths: ListLengths, margin: float = 1.0, least_gap: float = 0.2
) -> Tensor:
    """``max(0, margin - difference)``, averaged over the pairs whose gap is wide enough.

    ``difference`` is the score of the longer less that of the shorter. Where draws disagree about
    which is the longer, both directions count by their share.
    """
    scores = lengths.kept(scores)
    target, decided = preferences(lengths, least_gap)
    difference = scores[:, :, None] - scores[:, None, :]
    right, wrong = (margin - difference).clamp(min=0.0), (margin + difference).clamp(min=0.0)
    return mean_over_pairs(target * right + (1.0 - target) * wrong, decided, lengths)
