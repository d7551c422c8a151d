"""A sink of outcomes with somebody who listens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drift.delivery import Delivery, Receipt
from ranker.types import Forecast, Outcome
from serving.rank_service import OutcomeSink


@dataclass(frozen=True, slots=True)
class Heard:
    """``ended`` is told of outcomes once they are stored, also of those that were known before."""

    sink: OutcomeSink
    ended: Callable[[Sequence[Outcome]], None]

    def receive(self, delivery: Delivery, received: float) -> Receipt:
        receipt = self.sink.receive(delivery, received)
        self.ended(delivery.outcomes)
        return receipt

    def ranked(self, served_model: str, forecasts: Sequence[Forecast], now: float) -> None:
        self.sink.ranked(served_model, forecasts, now)
