"""A sink of outcomes with somebody who listens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drift.delivery import Delivery, Receipt
from ranker.types import Forecast, Outcome
from serving.logs import failure
from serving.rank_service import OutcomeSink

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Heard:
    """``ended`` is told of outcomes once they are stored, also of those that were known before.
    Trouble with it fails no report: its outcomes are on disk."""

    sink: OutcomeSink
    ended: Callable[[Sequence[Outcome]], None]

    def receive(self, delivery: Delivery, received: float) -> Receipt:
        receipt = self.sink.receive(delivery, received)
        try:
            self.ended(delivery.outcomes)
        except Exception as error:
            log.error("a listener failed on outcomes, which are stored: %s", failure(error))
        return receipt

    def ranked(self, served_model: str, forecasts: Sequence[Forecast], now: float) -> None:
        self.sink.ranked(served_model, forecasts, now)
