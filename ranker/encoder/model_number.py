"""The number by which an encoder knows a served model, in training and at serving alike."""

from __future__ import annotations

from collections.abc import Sequence


def model_number(served_model: str, models: Sequence[str]) -> int:
    """``i + 1`` for ``models[i]``; 0, what all have in common, for one not told apart."""
    return models.index(served_model) + 1 if served_model in models else 0
