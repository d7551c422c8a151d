"""How much traffic the loop is shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: Its own, so that nothing bundled is known of it: the ranker has to learn from outcomes alone.
SERVED_MODEL = "chat"
RANKER = "length-ranker-chat"


@dataclass(frozen=True, slots=True)
class LoopDemoConfig:
    """``usual`` requests of the traffic that the champion was trained for come first. Training
    waits for ``gather`` outcomes after the alert, the gate for ``shadow`` more. ``rounds`` of
    boosting: 0 for the usual settings. ``bursts`` of ``requests`` held-out ones measure efficiency.
    ``traffic`` in the folder ``shared`` is what comes then; empty: part of the bundled chat.
    """

    usual: int = 900
    gather: int = 1000
    shadow: int = 150
    rounds: int = 0
    bursts: int = 16
    requests: int = 400
    seed: int = 0
    traffic: str = ""
    shared: Path = Path()

    def __post_init__(self) -> None:
        for name in ("usual", "gather", "bursts", "requests"):
            if getattr(self, name) < 1:
                raise ValueError(f"loop.{name} must be >= 1, got {getattr(self, name)}")
        for name in ("shadow", "rounds", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"loop.{name} must be >= 0, got {getattr(self, name)}")
