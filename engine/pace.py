"""How evenly the tokens of one request came, and what held them up. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Cause(StrEnum):
    """Why a token came later than a step that decodes and does nothing else would have brought it.

    preempted: its request had lost its slot and waited for another. memory: it stood still in its
    slot, without a block for the token. recompute: what its request had lost was computed again.
    prefill: the step computed prompts of others too. swap: the step moved blocks between device
    and host.
    """

    PREEMPTED = "preempted"
    MEMORY = "memory"
    RECOMPUTE = "recompute"
    PREFILL = "prefill"
    SWAP = "swap"


@dataclass(frozen=True, slots=True)
class Pace:
    """Times between the tokens of a request (ITL), in seconds of the engine's clock.

    Tokens that came in one step have one gap before them. ``p99`` is exact to
    :data:`engine.gaps.RESOLUTION` and never above ``longest``. All are 0 without a gap.
    ``stalls``: what part of the gaps each cause made, those causes alone that did.
    """

    gaps: int = 0
    mean: float = 0.0
    std: float = 0.0
    p99: float = 0.0
    longest: float = 0.0
    stalls: Mapping[Cause, float] = field(default_factory=dict)

    @property
    def variation(self) -> float:
        """Coefficient of variation: standard deviation over mean; 0 is a metronome."""
        return self.std / self.mean if self.mean > 0.0 else 0.0
