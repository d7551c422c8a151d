"""The forward pass as the engine calls it, whoever computes it."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from engine.attention.interface import Current, StepContext


class Forward(Protocol):
    """Packed tokens in, logits out."""

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor, step: StepContext
    ) -> torch.Tensor:
        """Logits ``[R, vocabulary]`` of the packed ``rows [R]``, R >= 1.

        ``ids`` and ``positions`` are int64 ``[T]``, those of the batch of ``step``.
        Writes keys and values to the pool of ``step``.
        """
        ...


class Transformers:
    """Any causal model of transformers whose attention is the registered one."""

    def __init__(self, network: Any) -> None:
        self._network = network
        self._current = Current.of(network)

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor, step: StepContext
    ) -> torch.Tensor:
        self._current.step = step
        out = self._network(
            input_ids=ids[None], position_ids=positions[None], use_cache=False, logits_to_keep=rows
        )
        logits: torch.Tensor = out.logits[0]
        return logits
