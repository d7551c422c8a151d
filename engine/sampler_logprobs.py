"""Log probabilities of tokens under the model's own distribution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from engine.ranking import largest
from engine.spans import row_sums, spans
from engine.token import Token


def report(logits: torch.Tensor, ids: Sequence[int], tops: Sequence[int]) -> list[Token]:
    """``ids[r]`` with its log probability, and the ``tops[r]`` likeliest with theirs, for each row.

    ``logits``, float32 ``[R, vocabulary]``, as the model gave them. Of equally likely tokens the
    lower id comes first.
    """
    peak = spans(logits, -torch.inf).amax(-1).amax(-1, keepdim=True)
    # In spans: the order of a sum over a whole row may depend on how many rows there are.
    weights = torch.sub(logits, peak).exp_()
    norm = peak.double() + row_sums(weights)[:, None].log()
    own = logits.gather(1, torch.tensor(ids, device=logits.device)[:, None]).double() - norm
    likeliest: list[tuple[tuple[int, float], ...]] = [()] * len(ids)
    if any(tops):
        likeliest = [
            tuple(zip(places.tolist(), (values.astype(np.float64) - scale).tolist(), strict=True))
            for (values, places), scale in zip(
                map(largest, logits.cpu().numpy(), tops), norm.squeeze(-1).tolist(), strict=True
            )
        ]
    return [
        Token(token, logprob, top)
        for token, (logprob,), top in zip(ids, own.tolist(), likeliest, strict=True)
    ]
