"""Drawing tokens from a batch's distributions, each row by a random number of its own.

By inverse transform: one uniform number per token. Sums over the vocabulary run over spans first
and within one span afterwards, because a cumulative sum over 50,000 tokens is slow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq

import torch

from engine.placed import placed
from engine.sampler_filter import draw_filtered
from engine.sequence import Sequence
from engine.spans import SPAN, spans


def argmax(logits: torch.Tensor) -> torch.Tensor:
    """First index of each row's maximum, int64 ``[B]``.

    In two steps, since ``torch.argmax`` over a long row is not vectorised on a CPU.
    """
    parts = spans(logits, -torch.inf)
    span = parts.amax(-1).argmax(-1)
    rows = torch.arange(len(logits), device=logits.device)
    return span * SPAN + parts[rows, span].argmax(-1)


def draw(logits: torch.Tensor, best: torch.Tensor, sequences: Seq[Sequence]) -> torch.Tensor:
    """One token per row of ``logits``, float32 ``[B, vocabulary]``, int64 ``[B]``.

    ``best [B]`` is each row's likeliest token.
    """
    device, settings = logits.device, [s.sampling for s in sequences]
    temperature = placed([s.temperature for s in settings], device)
    peak = logits.gather(1, best[:, None])
    # Minus the peak first: a tiny temperature then gives 0 and -inf, not inf - inf. Powers of two,
    # since MKL's exp takes ten times as long where it underflows, which is most of a calm row.
    weights = torch.sub(logits, peak).div_(temperature[:, None] * math.log(2.0)).exp2_()
    if any(s.min_p for s in settings):
        # The likeliest weighs 1, so min_p is itself the least weight that stays.
        least = placed([s.min_p for s in settings], device)
        weights.masked_fill_(weights < least[:, None], 0.0)
    uniform = placed([s.uniform() for s in sequences], device, torch.float64)
    cut = [b for b, s in enumerate(settings) if s.top_k or s.top_p < 1.0]
    if not cut:
        return inverse_transform(weights, uniform)
    tokens = torch.empty_like(best)
    whole = [b for b, s in enumerate(settings) if not (s.top_k or s.top_p < 1.0)]
    if whole:
        index = placed(whole, device)
        drawn = inverse_transform(weights.index_select(0, index), uniform[index])
        tokens.index_copy_(0, index, drawn)
    index = placed(cut, device)
    drawn = draw_filtered(
        weights.index_select(0, index) if whole else weights,
        [settings[b].top_k for b in cut],
        [settings[b].top_p for b in cut],
        uniform[index],
    )
    return tokens.index_copy_(0, index, drawn)


def inverse_transform(weights: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """First index whose cumulative weight exceeds ``uniform`` of the row's total, int64 ``[B]``.

    ``weights [B, vocabulary]``, non-negative with a positive sum, in any scale; ``uniform [B]`` in
    [0, 1), float64. A token of weight 0 is never drawn.
    """
    parts = spans(weights, 0.0)
    sums = parts.sum(-1).double()
    span, rest = _pick(sums, uniform * sums.cumsum(-1)[:, -1])
    rows = torch.arange(len(weights), device=weights.device)
    index, _ = _pick(parts[rows, span].double(), rest)
    return span * SPAN + index


def _pick(weights: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the running sum first exceeds ``target``, and by how much ``target`` reached into it.

    Rounding can leave ``target`` at or past the end; then the last positive weight is meant.
    """
    ends = weights.cumsum(-1)
    index = torch.searchsorted(ends, target[:, None], right=True)
    last = weights.shape[-1] - 1 - (weights > 0).flip(-1).to(torch.int8).argmax(-1, keepdim=True)
    index = torch.minimum(index, last)
    before = (ends - weights).gather(-1, index)
    return index.squeeze(-1), target - before.squeeze(-1)
