"""Who decides what a forecast may say: the real monitor, and what acts on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from drift.config import MonitorConfig
from drift.key import Key
from drift.monitor import Monitor
from drift.opened import Open
from drift.reference import Reference
from drift.states import State
from ranker.types import Forecast, Outcome
from serving.drift_bench.deck import MODEL


class Acts(Protocol):
    """Told of everything in the order in which a rank service hears of it."""

    @property
    def state(self) -> State: ...

    def stamped(self, forecast: Forecast) -> Forecast:
        """What a request that arrives now is scheduled by, of what the ranker says."""
        ...

    def heard(self, outcome: Outcome) -> None:
        """A request ended."""
        ...

    def under_way(self, requests: Sequence[Open]) -> None:
        """These have not."""
        ...


class ByState:
    """No trust in a degraded version, all of it in any other."""

    def __init__(self, config: MonitorConfig, reference: Reference) -> None:
        self._monitor = Monitor(config, {Key(MODEL, MODEL, "1"): reference})

    @property
    def state(self) -> State:
        known = self._monitor.progress()
        return known[0][2] if known else State.OK

    def stamped(self, forecast: Forecast) -> Forecast:
        return replace(forecast, trust=0.0) if self.state >= State.DEGRADED else forecast

    def heard(self, outcome: Outcome) -> None:
        self._monitor.update(outcome)

    def under_way(self, requests: Sequence[Open]) -> None:
        self._monitor.note(requests)
