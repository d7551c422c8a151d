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

    def to_come(self, request: Request, done: int, more: float) -> float:
        """Of what is left when ``more`` output tokens come after the first ``done``.

        Prompt tokens not computed yet count, and all tokens again of one whose memory was taken.
        """
        if self.cost is None:
            return more
        work = self.whole(request, done + more) - self.whole(request, done)
        if request.output_tokens and request.pending_tokens == 1:
            return work  # the newest token is computed by the next decode
        return work + self.cost.prefill * request.pending_tokens
