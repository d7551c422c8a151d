"""Who decides what a forecast may say: the monitor that serves, and what acts on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from drift.acting.acting import Acting
from drift.acting.config import ActConfig
from drift.acting.standing import standings
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


class Service:
    """The rank service's part: its monitor, which knows ``reference``, and its actions.

    These look at the monitor as ``serving.guide`` does: after ``seconds``, at once upon an alert.
    What is left of order is read off tau-b: a replay for its SJF efficiency, which the service has
    too, is not made.
    """

    def __init__(
        self,
        monitor: MonitorConfig,
        reference: Reference,
        acting: ActConfig,
        seconds: float = 1.0,
    ) -> None:
        self._monitor = Monitor(monitor, {Key(MODEL, MODEL, "1"): reference})
        self._acting = Acting(acting)
        self._seconds, self._looked = seconds, float("-inf")

    @property
    def state(self) -> State:
        return next((state for _, _, state in self._monitor.progress()), State.OK)

    def stamped(self, forecast: Forecast) -> Forecast:
        return self._acting.stamp(MODEL, "", "", [forecast])[0]

    def heard(self, outcome: Outcome) -> None:
        alert = any(event.alert for event in self._monitor.update(outcome))
        if alert or outcome.finished - self._looked >= self._seconds:
            self._looked = outcome.finished
            self._acting.look(standings(self._monitor), self._monitor.recent, outcome.finished)

    def under_way(self, requests: Sequence[Open]) -> None:
        self._monitor.note(requests)
