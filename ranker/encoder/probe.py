"""A decoder left as it is, and a straight line through its state after the prompt, as it is
exported. Torch; serving does not load it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Line:
    """``(state - mean) / spread @ coefficients + intercept`` is the score, higher = longer; log
    quantiles are ``slope`` times that, plus ``offsets`` [levels], ascending. The rest is [width].
    """

    mean: Floats
    spread: Floats
    coefficients: Floats
    intercept: float
    slope: float
    offsets: Floats

    def scores(self, states: Floats) -> Floats:
        """[n, width] -> [n]."""
        found: Floats = ((states - self.mean) / self.spread) @ self.coefficients + self.intercept
        return found


class ProbeNetwork(nn.Module):
    """``encoder`` is a decoder that ends after the layer that is read. What it knows of its answer
    when the prompt is over stands in its state at the last token (Shahout et al. 2024, "Don't Stop
    Me Now", section 3, who read one layer of the served model at every token)."""

    def __init__(self, encoder: PreTrainedModel, line: Line) -> None:
        super().__init__()
        self.encoder = encoder
        self.models: tuple[str, ...] = ()  #: told apart: none, a probe is of one
        width = len(line.mean)
        self.score = nn.Linear(width, 1)
        self.mean, self.spread, self.offsets = (
            nn.Buffer(torch.as_tensor(values, dtype=torch.float32))
            for values in (line.mean, line.spread, line.offsets)
        )
        self.slope = float(line.slope)
        with torch.no_grad():
            self.score.weight.copy_(torch.from_numpy(line.coefficients)[None])
            self.score.bias.fill_(line.intercept)

    def forward(self, ids: Tensor, mask: Tensor, model: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``scores [n]``, ``log_quantiles [n, levels]`` and the state, ``pooled [n, width]``.

        ``ids`` and ``mask`` are ``[n, tokens]``, filled up at the end; ``model`` [n] plays no part.
        """
        states = self.encoder(
            input_ids=ids, attention_mask=causal(ids), use_cache=False
        ).last_hidden_state
        pooled = (at_end(states, mask) - self.mean) / self.spread
        score = self.score(pooled)
        # An input that nothing reads would be exported with the rows that it was traced with.
        scores = score[:, 0] + torch.zeros_like(model, dtype=torch.float32)
        return scores, self.slope * score + self.offsets, pooled


def causal(ids: Tensor) -> Tensor:
    """``[n, 1, tokens, tokens]``, to be added to attention: no token sees a later one. What fills
    up a row comes after its last token, which therefore never sees it."""
    rows, tokens = ids.shape
    at = torch.arange(tokens, device=ids.device)
    hidden = torch.zeros(tokens, tokens, device=ids.device)
    hidden = hidden.masked_fill(at[None, :] > at[:, None], torch.finfo(torch.float32).min)
    return hidden[None, None].expand(rows, 1, tokens, tokens)


def at_end(states: Tensor, mask: Tensor) -> Tensor:
    """Of ``states [n, tokens, width]`` those at the last token of each row, ``[n, width]``."""
    rows = torch.arange(states.shape[0], device=states.device)
    return states[rows, mask.sum(dim=1) - 1]
