"""What is known of the lengths in a list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ListLengths:
    """Output tokens of prompts in lists that are compared, several draws a prompt.

    ``tokens``, ``censored`` and ``mask`` are ``[lists, size, draws]``: the length, whether it is a
    lower bound, whether there is such a draw. A prompt without a draw is padding. ``weights``
    ``[lists, size]`` says how much a prompt counts. Raises ``ValueError`` when shapes differ.
    """

    tokens: Tensor
    censored: Tensor
    mask: Tensor
    weights: Tensor

    def __post_init__(self) -> None:
        shape = self.tokens.shape
        if not (len(shape) == 3 and shape == self.censored.shape == self.mask.shape):
            raise ValueError(
                f"lengths: tokens, censored and mask must share one shape [lists, size, draws], "
                f"got {tuple(shape)}, {tuple(self.censored.shape)}, {tuple(self.mask.shape)}"
            )
        if self.weights.shape != shape[:2]:
            raise ValueError(
                f"lengths.weights must have shape {tuple(shape[:2])}, "
                f"got {tuple(self.weights.shape)}"
            )

    @classmethod
    def of(
        cls,
        tokens: Tensor,
        censored: Tensor | None = None,
        mask: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> ListLengths:
        """From ``[lists, size, draws]`` or, with one draw each, ``[lists, size]``; what is left out
        is: nothing censored, nothing padding, all of weight 1."""
        censored = torch.zeros_like(tokens, dtype=torch.bool) if censored is None else censored
        mask = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        if tokens.ndim == 2:
            tokens, censored, mask = (part.unsqueeze(-1) for part in (tokens, censored, mask))
        if weights is None:
            weights = torch.ones(tokens.shape[:2], dtype=tokens.dtype, device=tokens.device)
        return cls(tokens, censored, mask, weights)

    @property
    def present(self) -> Tensor:
        """Which prompts are no padding, ``[lists, size]``."""
        return self.mask.any(dim=-1)

    def kept(self, values: Tensor) -> Tensor:
        """``values`` of prompts ``[lists, size, ...]`` with zeros in place of padding, so that
        nothing that stands there, not even a NaN, reaches the loss or the gradient."""
        present = self.present.reshape(self.present.shape + (1,) * (values.ndim - 2))
        return torch.where(present, values, torch.zeros_like(values))

    def draws(self) -> Iterator[ListLengths]:
        """One draw of every prompt at a time, for losses that order a list."""
        for draw in range(self.tokens.shape[-1]):
            part = slice(draw, draw + 1)
            yield ListLengths(
                self.tokens[..., part], self.censored[..., part], self.mask[..., part], self.weights
            )
