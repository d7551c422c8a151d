"""What a step costs, and what share of the engine one request takes."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CostModel:
    """Seconds of one step: ``base + decode·decodes + prefill·prefill tokens + context·context``.

    base: seconds that any step costs. decode, prefill: seconds per decoded and per prefilled token.
    context: seconds per token of context that the decodes of the step attend to (0 ignores it).
    swap: seconds to move one token's keys and values between device and host, one way, during which
    the batch stands still.

    Raises ``ValueError`` when a number is negative or not finite, or a step could cost nothing.
    """

    base: float
    decode: float
    prefill: float
    context: float = 0.0
    swap: float = 0.0

    def __post_init__(self) -> None:
        for name in ("base", "decode", "prefill", "context", "swap"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0.0:
                raise ValueError(f"{name} must be finite and >= 0 seconds, got {value}")
        if self.base + self.decode <= 0.0 or self.base + self.prefill <= 0.0:
            raise ValueError("base, decode and prefill must give every step a cost above 0")

    def step(
        self, decodes: int, prefill_tokens: int, context_tokens: int = 0, swapped_tokens: int = 0
    ) -> float:
        """Seconds of one step; one that computes nothing costs what it swaps."""
        moved = self.swap * swapped_tokens
        if decodes == 0 and prefill_tokens == 0:
            return moved
        return (
            self.base
            + self.decode * decodes
            + self.prefill * prefill_tokens
            + self.context * context_tokens
            + moved
        )

    def work(self, prompt_tokens: float, output_tokens: float, batch: float) -> float:
        """Seconds of the engine that one request takes as its share of steps of ``batch`` requests.

        ``c·P + L·(a + b·B)/B``, plus the context each of the L tokens attends to. The prompt must
        stay in: order by output length alone fails on traces with long prompts.
        """
        attended = output_tokens * (prompt_tokens + output_tokens / 2.0)
        return (
            self.prefill * prompt_tokens
            + output_tokens * (self.base / batch + self.decode)
            + self.context * attended
        )
