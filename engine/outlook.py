"""How much work is still to come, as far as forecasts tell."""

from __future__ import annotations

from engine.core import remaining
from engine.core.costs import CostModel
from engine.core.request import Request


class Outlook:
    """Predicted work in seconds of an engine that runs ``batch`` requests at a time.

    Without a forecast a request is taken for the mean of those that ended, ``expected`` tokens
    before one has.
    """

    def __init__(self, cost: CostModel, batch: int, expected: float = 128.0) -> None:
        self._cost = cost
        self._batch = batch
        self._mean = expected
        self._ended = 0

    def ended(self, output_tokens: int) -> None:
        """Learn from an answer."""
        self._ended += 1
        self._mean += (output_tokens - self._mean) / self._ended

    def work(self, request: Request) -> float:
        """Seconds until it ends: tokens to prefill, and the rest of the answer."""
        done = request.output_tokens
        if request.forecast is None:
            tokens = max(1.0, self._mean - done)
        else:
            tokens = remaining.mean(request.forecast, done)
        whole = self._cost.work(request.total_tokens, tokens, self._batch)
        return whole - self._cost.prefill * request.computed_tokens
