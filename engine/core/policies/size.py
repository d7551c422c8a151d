"""How large a request is, in the unit that policies compare."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.costs import CostModel
from engine.core.request import Request


@dataclass(frozen=True, slots=True)
class Size:
    """Seconds of the engine's work with a cost model, output tokens without one.

    batch: requests per step when the engine is busy; they share out what a step costs.

    Raises ``ValueError`` when ``batch`` is below 1.
    """

    cost: CostModel | None = None
    batch: int = 1

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch must be at least 1 request, got {self.batch}")

    def whole(self, request: Request, output_tokens: float) -> float:
        """Of all of a request whose answer has ``output_tokens``."""
        if self.cost is None:
            return output_tokens
        return self.cost.work(request.prompt_tokens, output_tokens, self.batch)

    def to_come(self, request: Request, output_tokens: float) -> float:
        """Of what is left when ``output_tokens`` more are to come.

        Prompt tokens not computed yet count, and all tokens again of one whose memory was taken.
        """
        if self.cost is None:
            return output_tokens
        done, pending = request.output_tokens, request.pending_tokens
        if done and pending == 1:
            pending = 0  # the newest token, which the next decode computes
        return (
            self.cost.prefill * pending
            + self.whole(request, done + output_tokens)
            - self.whole(request, done)
        )
