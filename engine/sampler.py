"""Logits to tokens, for a batch whose requests each have settings and random numbers of their own.

Everything is computed row by row, so that a request's token is the same, bit for bit, alone and
among others; rows that share a kind of work are only handled in one go. A greedy row pays for its
maximum alone.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch

from engine.placed import placed
from engine.sampler_draw import argmax, draw
from engine.sampler_logits import adjust, adjusted
from engine.sampler_logprobs import report
from engine.sequence import Sequence
from engine.token import Token


def sample(logits: torch.Tensor, sequences: Seq[Sequence]) -> list[Token | None]:
    """One token per row of ``logits [B, vocabulary]``; row b belongs to ``sequences[b]``.

    ``None`` for a row that holds a NaN or has no finite maximum: the model failed there, and only
    there. ``logits`` is left as it is.
    """
    raw = logits = logits.float()
    changed = [b for b, s in enumerate(sequences) if adjusted(s)]
    if changed:
        logits = logits.clone()
        adjust(logits, sequences, changed)
    picked = argmax(logits)
    # A NaN counts as the largest, so this finds one wherever it is.
    finite = torch.isfinite(logits.gather(1, picked[:, None])).squeeze(1)
    drawn = [b for b, s in enumerate(sequences) if not s.sampling.greedy]
    if drawn:
        index = placed(drawn, logits.device)
        rows = logits if len(drawn) == len(sequences) else logits.index_select(0, index)
        chosen = draw(rows, picked[index], [sequences[b] for b in drawn])
        picked = picked.index_copy(0, index, chosen)
    ids, fine = torch.stack((picked, finite.long())).tolist()
    tokens = [Token(token) if ok else None for token, ok in zip(ids, fine, strict=True)]
    for b, reported in _reports(raw, sequences, tokens):
        tokens[b] = reported
    return tokens


def _reports(
    raw: torch.Tensor, sequences: Seq[Sequence], tokens: Seq[Token | None]
) -> list[tuple[int, Token]]:
    """Tokens again, with log probabilities, of the rows that want them."""
    wanted = [
        (b, token.id, sequence.sampling.logprobs)
        for b, (token, sequence) in enumerate(zip(tokens, sequences, strict=True))
        if token is not None and sequence.sampling.logprobs is not None
    ]
    if not wanted:
        return []
    rows, ids, tops = zip(*wanted, strict=True)
    index = placed(rows, raw.device)
    return list(zip(rows, report(raw.index_select(0, index), ids, tops), strict=True))
