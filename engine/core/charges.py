"""What requests are charged for: expected service at admission, real service at the end."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.fairness import FairnessConfig
from engine.core.line import Line
from engine.core.request import Request
from ranker.types import FinishReason


@dataclass(slots=True)
class Charge:
    """One admitted request, until it ends: ``billed`` for ``output`` expected tokens."""

    request: Request
    billed: Line
    output: float
    runs_in: Line | None  #: None while it waits to be resumed


class Tariff:
    """Service in weighted tokens, and the output that a request is expected to have."""

    def __init__(self, config: FairnessConfig) -> None:
        self._config = config
        self._mean = config.expected_output
        self._count = 0

    def service(self, prompt: float, output: float) -> float:
        return self._config.input_weight * prompt + self._config.output_weight * output

    def expected_output(self, request: Request) -> float:
        """Mean of its forecast; without one, of the requests that ended lately."""
        return self._mean if request.forecast is None else request.forecast.mean

    def learn(self, request: Request) -> None:
        """An aborted or failed answer says nothing about how long answers are."""
        if request.finish_reason in (FinishReason.STOP, FinishReason.LENGTH):
            self._count += 1
            # A plain mean at first, then one that forgets, since traffic changes.
            self._mean += (request.output_tokens - self._mean) / min(self._count, 256)
