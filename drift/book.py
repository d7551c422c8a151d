"""What is counted of reports beside the monitor: by whom, how many, what was wrong with them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from drift.delivery import Delivery
from drift.figures import Faults, ReporterRow
from drift.key import Key
from drift.outcomes import Stored
from drift.reporters import Reporters
from drift.survivors import Survival, Survivors
from ranker.types import Forecast, Outcome

#: Labels that outcomes are counted by at most, whatever served models reporters name.
_LABELS = 512
#: Ranker versions whose ranked and reported requests are compared.
_VERSIONS = 32


class Book:
    """Counts since the start. Not safe for several threads."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, bool, str], int] = {}
        self.faults = Faults()
        self._reporters = Reporters()
        self._survivors: OrderedDict[Key, Survivors] = OrderedDict()

    def put_right(self, delivery: Delivery, received: float) -> Delivery:
        """``delivery``, which came at Unix second ``received``, with its times by our clock."""
        right, mended = self._reporters.put_right(delivery, received)
        clock = self.faults.clock + mended + delivery.mended
        self.faults = replace(self.faults, clock=clock)
        return right

    def refuse(self, outcomes: int) -> None:
        """So many could not be stored."""
        self.faults = replace(self.faults, refused=self.faults.refused + outcomes)

    def take(self, delivery: Delivery, stored: Stored, late: int) -> None:
        """``delivery`` was stored; so many of it had missed their place in order."""
        reporter = self._reporters.of(delivery.reporter)
        reporter.took(stored.new)
        reporter.late += late
        for outcome in stored.new:
            self._count(outcome)
        self.faults = replace(
            self.faults,
            duplicates=self.faults.duplicates + stored.duplicates,
            conflicts=self.faults.conflicts + stored.conflicts,
        )

    def ranked(self, served_model: str, forecasts: Sequence[Forecast], now: float) -> None:
        """Forecasts were given out at Unix second ``now``."""
        for forecast in forecasts:
            key = Key(served_model, forecast.ranker, forecast.version)
            self._survivors_of(key).rank(forecast.score, now)

    def reporters(self) -> tuple[ReporterRow, ...]:
        return self._reporters.rows()

    def survival(self, now: float) -> dict[Key, Survival | None]:
        """By ranker version, what was ranked against what was reported, at Unix second ``now``."""
        return {key: survivors.look(now) for key, survivors in self._survivors.items()}

    def _count(self, outcome: Outcome) -> None:
        forecast = outcome.forecast
        label = (outcome.served_model, forecast is not None, str(outcome.finish_reason))
        if label in self.counts or len(self.counts) < _LABELS:
            self.counts[label] = self.counts.get(label, 0) + 1
        if forecast is not None:
            key = Key(outcome.served_model, forecast.ranker, forecast.version)
            self._survivors_of(key).report(forecast.score, outcome.arrival, outcome.finished)

    def _survivors_of(self, key: Key) -> Survivors:
        survivors = self._survivors.get(key)
        if survivors is None:
            survivors = self._survivors[key] = Survivors()
            if len(self._survivors) > _VERSIONS:
                self._survivors.popitem(last=False)
        return survivors
