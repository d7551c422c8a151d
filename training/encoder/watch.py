"""What a run tells whoever watches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during training. The message says how to go on."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a step did: ``step`` of ``steps`` done, its ``losses`` by name and their weighted sum
    ``loss``, ``tau`` on validation when it was taken, ``seconds_left`` at the pace so far."""

    step: int
    steps: int
    loss: float
    losses: Mapping[str, float]
    tau: float | None
    seconds_left: float


def unwatched(step: Step) -> None:
    """A run that nobody watches."""
