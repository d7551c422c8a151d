"""What a caller changes about logits before anything is drawn from them."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np
import torch

from engine.placed import placed
from engine.sequence import Sequence


def adjusted(sequence: Sequence) -> bool:
    """Whether :func:`adjust` changes anything for it."""
    return bool(sequence.sampling.logit_bias or sequence.held_back or sequence.usage is not None)


def adjust(logits: torch.Tensor, sequences: Seq[Sequence], rows: Seq[int]) -> None:
    """Apply biases, ends that may not come yet and penalties to ``rows`` of ``logits``, in place.

    ``logits``: float32 ``[B, vocabulary]``, contiguous. In the order that
    :class:`~engine.sampling.SamplingParams` gives.
    """
    flat, size = logits.view(-1), logits.shape[-1]
    at = [b * size + t for b in rows for t, _ in sequences[b].sampling.logit_bias]
    if at:
        added = [bias for b in rows for _, bias in sequences[b].sampling.logit_bias]
        flat.index_add_(0, _tensor(at, flat), placed(added, flat.device, torch.float32))
    at = [b * size + t for b in rows for t in sequences[b].held_back]
    if at:
        flat[_tensor(at, flat)] = -torch.inf
    _penalise(flat, size, [(b, sequences[b]) for b in rows])


def _penalise(flat: torch.Tensor, size: int, rows: Seq[tuple[int, Sequence]]) -> None:
    """All rows together: a token's place in ``flat`` says whose it is."""
    used = [(b, s.usage, s.sampling) for b, s in rows if s.usage is not None]
    if not used:
        return
    lengths = [len(usage.ids) for _, usage, _ in used]

    def column(numbers: list[float]) -> torch.Tensor:
        return _tensor(np.repeat(np.array(numbers, np.float32), lengths), flat)

    at = _tensor(np.concatenate([usage.ids + b * size for b, usage, _ in used]), flat)
    counts = _tensor(np.concatenate([usage.counts for _, usage, _ in used]), flat)
    repetition = column([sampling.repetition_penalty for *_, sampling in used])
    frequency = column([sampling.frequency_penalty for *_, sampling in used])
    presence = column([sampling.presence_penalty for *_, sampling in used])
    values = flat[at]
    values = torch.where(values > 0, values / repetition, values * repetition)
    flat[at] = values - frequency * counts - presence * (counts > 0)


def _tensor(values: list[int] | np.ndarray, like: torch.Tensor) -> torch.Tensor:
    return placed(values, like.device)
