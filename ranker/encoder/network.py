"""The encoder with its heads, as it is trained and exported. Torch; serving does not load it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ranker.types import LEVELS

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: How the score is read off a head: from its output ``[n, width]`` to ``[n]``, higher = longer.
#: ``linear`` is the plain score head. ``ordinal`` holds logits of "longer than the k-th cut", whose
#: probabilities add up to the expected number of cuts below the answer. ``log_t`` holds location
#: and scale of log tokens.
SCORES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda head: head[:, 0],
    "ordinal": lambda head: torch.sigmoid(head.float()).sum(dim=1),
    "log_t": lambda head: head[:, 0],
}


class LengthNetwork(nn.Module):
    """``encoder`` reads; what it says of the first token and on average of all goes to the heads.

    - ``linear`` scores the prompt;
    - ``quantiles`` says the quantiles of ``log(1 + output tokens)`` at ``levels``, each the one
      before plus something positive, so that they cannot cross;
    - ``extra`` heads of the given widths, for losses that want their own.

    ``score_head`` names the head that the score comes from, a key of :data:`SCORES`. ``models``
    are served models told apart by number (:mod:`ranker.encoder.model_number`). Each has a vector
    that is compared with the pooled text and moves the score, and one that moves the quantiles;
    those of number 0, any other model, are zero and stay so. Dropout stands before the heads alone:
    inside a small encoder it doubles the time of a step on a CPU and, over a few epochs, gains
    nothing.

    Raises ``ValueError`` when ``score_head`` is no head of the network, or a model comes twice.
    """

    def __init__(
        self,
        encoder: PreTrainedModel,
        levels: Sequence[float] = LEVELS,
        models: Sequence[str] = (),
        *,
        extra: Mapping[str, int] | None = None,
        score_head: str = "linear",
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if len(set(models)) != len(models):
            raise ValueError(f"network.models must differ from each other, got {', '.join(models)}")
        widths = {"linear": 1, "quantiles": len(levels), **(extra or {})}
        if score_head not in SCORES or score_head not in widths:
            known = ", ".join(name for name in SCORES if name in widths)
            raise ValueError(f"network.score_head must be one of {known}, got {score_head!r}")
        self.encoder = encoder
        self.levels = tuple(levels)
        self.models = tuple(models)
        self.score_head = score_head
        self.width = 2 * int(encoder.config.hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.heads = nn.ModuleDict({k: nn.Linear(self.width, n) for k, n in widths.items()})
        self.score_shift = _Shift(len(self.models), self.width)
        self.quantile_shift = _Shift(len(self.models), self.width)

    def forward(self, ids: Tensor, mask: Tensor, model: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``scores [n]``, ``log_quantiles [n, levels]`` and ``pooled [n, 2 * hidden]``.

        ``ids`` and ``mask`` are ``[n, tokens]``, ``model`` holds numbers of served models ``[n]``.
        """
        pooled = self.pooled(ids, mask)
        heads = self.read(pooled, model)
        return SCORES[self.score_head](heads[self.score_head]), heads["quantiles"], pooled

    def pooled(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The encoder's state at the first token beside the mean over all tokens, ``[n, 2H]``."""
        states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        share = mask[..., None].to(states.dtype)
        mean = (states * share).sum(dim=1) / share.sum(dim=1).clamp(min=1.0)
        return torch.cat((states[:, 0], mean), dim=1)

    def read(self, pooled: Tensor, model: Tensor) -> dict[str, Tensor]:
        """The output of every head, ``[n, its width]``; of ``log_t``, the scale made positive."""
        text = self.dropout(pooled)
        out = {name: head(text).float() for name, head in self.heads.items()}
        steps = out["quantiles"]
        longer = self.quantile_shift(text, model)
        above = F.softplus(steps[:, 1:]).cumsum(dim=1)
        first = steps[:, :1] + longer[:, None]
        out["quantiles"] = torch.cat((first, first + above), dim=1)
        longer = self.score_shift(text, model)[:, None]
        for name in out.keys() & {"linear", "ordinal"}:
            out[name] = out[name] + longer
        if "log_t" in out:
            location, scale = out["log_t"].unbind(dim=1)
            moved = location + longer[:, 0]
            out["log_t"] = torch.stack((moved, F.softplus(scale) + 1e-2), dim=1)
        return out

    @torch.no_grad()
    def start_at(self, log_quantiles: Tensor) -> None:
        """Let the heads that speak of lengths begin with the marginal quantiles ``[levels]``,
        ascending, whatever the text: that is what they say until a loss teaches them better."""
        head = cast(nn.Linear, self.heads["quantiles"])
        gaps = log_quantiles.diff().clamp(min=1e-3)
        head.weight.zero_()
        head.bias[0] = log_quantiles[0]
        head.bias[1:] = gaps + torch.log(-torch.expm1(-gaps))  # the inverse of softplus
        if "log_t" in self.heads:
            cast(nn.Linear, self.heads["log_t"]).bias[0] = log_quantiles[len(log_quantiles) // 2]


class _Shift(nn.Module):
    """What a served model adds: its vector times the pooled text, and a constant."""

    def __init__(self, models: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(models + 1, width + 1, padding_idx=0) if models else None
        if self.vectors is not None:
            nn.init.zeros_(self.vectors.weight)

    def forward(self, text: Tensor, model: Tensor) -> Any:
        if self.vectors is None:
            # As many as there are numbers: an input that nothing reads would be exported with the
            # number of rows that it was traced with.
            return torch.zeros_like(model, dtype=torch.float32)
        vector = self.vectors(model)
        return (vector[:, :-1] * text).sum(dim=1).float() + vector[:, -1]
