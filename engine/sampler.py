"""Logits to tokens, for a batch whose requests each have settings and random numbers of their own.

Drawing is by inverse transform: one uniform number per request and token, so a draw depends on
the request alone, not on its neighbours. The distribution's sums run over spans of the vocabulary
first and within one span afterwards, because a cumulative sum over 50,000 tokens is slow.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch

from engine.sequence import Sequence
from engine.token import Token

_SPAN = 256
#: Candidates that top-p looks at before it sorts the whole vocabulary.
_CANDIDATES = 512


def sample(logits: torch.Tensor, sequences: Seq[Sequence]) -> list[Token | None]:
    """One token per row of ``logits [B, vocabulary]``; row b belongs to ``sequences[b]``.

    ``None`` for a row that holds a NaN or has no finite maximum: the model failed there, and only
    there.
    """
    logits = logits.float()
    penalised = [b for b, s in enumerate(sequences) if s.sampling.repetition_penalty != 1.0]
    if penalised:
        logits = _penalise(logits, sequences, penalised)
    tokens = argmax(logits)
    # A NaN counts as the largest, so this finds one wherever it is.
    finite = torch.isfinite(logits.gather(1, tokens[:, None])).squeeze(1)
    drawn = [b for b, s in enumerate(sequences) if not s.sampling.greedy]
    if drawn:
        index = torch.tensor(drawn, device=logits.device)
        chosen = _draw(logits.index_select(0, index), tokens[index], [sequences[b] for b in drawn])
        tokens = tokens.index_copy(0, index, chosen)
    picked, fine = torch.stack((tokens, finite.long())).tolist()
    return [Token(token) if ok else None for token, ok in zip(picked, fine, strict=True)]


def argmax(logits: torch.Tensor) -> torch.Tensor:
    """First index of each row's maximum, int64 ``[B]``.

    In two steps, since ``torch.argmax`` over a long row is not vectorised on a CPU.
    """
    spans = _spans(logits, -torch.inf)
    span = spans.amax(-1).argmax(-1)
    rows = torch.arange(len(logits), device=logits.device)
    return span * _SPAN + spans[rows, span].argmax(-1)


def _penalise(logits: torch.Tensor, sequences: Seq[Sequence], rows: Seq[int]) -> torch.Tensor:
    logits = logits.clone()
    for b in rows:
        penalty = sequences[b].sampling.repetition_penalty
        used = torch.tensor(list(sequences[b].used), device=logits.device)
        values = logits[b, used]
        logits[b, used] = torch.where(values > 0, values / penalty, values * penalty)
    return logits


def _draw(logits: torch.Tensor, best: torch.Tensor, sequences: Seq[Sequence]) -> torch.Tensor:
    """Draw one token per row; ``best`` is the row's likeliest token."""
    device = logits.device
    temperature = torch.tensor([s.sampling.temperature for s in sequences], device=device)
    peak = logits.gather(1, best[:, None])
    # Minus the peak first: a tiny temperature then gives 0 and -inf, not inf - inf.
    weights = (logits - peak).div_(temperature[:, None]).exp_()
    for b, sequence in enumerate(sequences):
        if sequence.sampling.top_k or sequence.sampling.top_p < 1.0:
            weights[b] = _filter(weights[b], sequence.sampling.top_k, sequence.sampling.top_p)
    uniform = torch.tensor([s.uniform() for s in sequences], dtype=torch.float64, device=device)
    return inverse_transform(weights, uniform)


def _filter(weights: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """``weights [vocabulary]`` with all but the k likeliest, then the nucleus, set to 0.

    The nucleus is the smallest set of likeliest tokens whose mass reaches ``top_p`` of what top-k
    left. Selecting candidates is ten times cheaper than sorting; the sort happens only when the
    nucleus turns out larger.
    """
    size = weights.numel()
    keep = min(top_k or size, size)
    candidates = min(keep, _CANDIDATES) if top_p < 1.0 else keep
    while True:
        values, index = weights.topk(candidates)
        total = values.sum(dtype=torch.float64) if candidates == keep else None
        if total is None:
            total = weights.sum(dtype=torch.float64) if keep == size else None
        if total is not None:
            cumulative = values.double().cumsum(0)
            if candidates == keep or cumulative[-1] >= top_p * total:
                break
        candidates = keep
    # A token stays when the mass before it is short of the nucleus; the first always does.
    inside = cumulative - values < top_p * total if top_p < 1.0 else torch.ones_like(index) > 0
    return torch.zeros_like(weights).index_copy_(0, index, values * inside)


def inverse_transform(weights: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """First index whose cumulative weight exceeds ``uniform`` of the row's total, int64 ``[B]``.

    ``weights [B, vocabulary]``, non-negative with a positive sum, in any scale; ``uniform [B]`` in
    [0, 1), float64. A token of weight 0 is never drawn.
    """
    spans = _spans(weights, 0.0)
    sums = spans.sum(-1).double()
    span, rest = _pick(sums, uniform * sums.sum(-1))
    rows = torch.arange(len(weights), device=weights.device)
    inner = spans[rows, span].double()
    index, _ = _pick(inner, rest)
    return span * _SPAN + index


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


def _spans(rows: torch.Tensor, filler: float) -> torch.Tensor:
    """``[B, vocabulary]`` as ``[B, spans, _SPAN]``, the last span filled up with ``filler``."""
    short = -rows.shape[-1] % _SPAN
    if short:
        rows = torch.nn.functional.pad(rows, (0, short), value=filler)
    return rows.view(len(rows), -1, _SPAN)
