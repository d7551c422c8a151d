"""What a recipe asks of an encoder: a head of some width, a target, a loss, and a score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from training.recipes.compare import Floats

if TYPE_CHECKING:
    from torch import Tensor


class Objective(Protocol):
    """Fitted to the training lengths when it is made; ``n`` rows make a batch.

    ``width`` is the number of outputs per prompt. ``targets`` turns tokens [n] into what the loss
    compares with, [n]; recipes as published take a length at the limit for a length. ``loss``
    takes outputs [n, width] and targets as tensors. ``scores`` turns outputs [n, width] into one
    number each, higher = longer.
    """

    @property
    def width(self) -> int: ...

    def targets(self, tokens: Floats) -> Floats: ...

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor: ...

    def scores(self, outputs: Floats) -> Floats: ...
