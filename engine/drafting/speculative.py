"""What an engine needs to decode speculatively."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.speculation import SpeculationConfig
from engine.drafting.drafter import Drafter


@dataclass(frozen=True, slots=True)
class Speculative:
    """``drafter`` guesses, ``config`` decides how much of it is worth verifying."""

    config: SpeculationConfig
    drafter: Drafter
