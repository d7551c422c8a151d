"""What the drift monitor knows, applied to every forecast that the rank service gives out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from drift.acting.acting import Acting
from drift.acting.config import ActConfig
from drift.acting.standing import Standing
from drift.entry import Entry
from drift.key import Key
from drift.worker import Work
from ranker.types import Forecast, Outcome
from serving.logs import failure

log = logging.getLogger(__name__)

#: Seconds after which the monitor is asked again; at once when it has raised an alert.
_SECONDS = 1.0


class Watched(Protocol):
    """What of ``drift.sink.MonitoredStore`` it goes by."""

    work: Work

    @property
    def alerts(self) -> int: ...

    def standings(self) -> list[Standing]: ...

    def recent(self, key: Key) -> Sequence[Outcome]: ...


class Guide:
    """Safe for several threads. :meth:`stamp` takes microseconds a prompt; looking at the monitor
    and fitting quantiles happens in the worker of ``watched``.

    Each change goes to ``announce``, in that worker. ``clock`` gives Unix seconds.
    """

    def __init__(
        self,
        watched: Watched,
        config: ActConfig,
        announce: Callable[[Entry], None],
        clock: Callable[[], float],
    ) -> None:
        self.acting = Acting(config)
        self._watched = watched
        self._announce = announce
        self._clock = clock
        self._lock = threading.Lock()
        self._unasked, self._asked, self._alerts = 0, float("-inf"), watched.alerts
        self._looked = False
        watched.work.submit("act", self.look)  # where a restart left it

    def stamp(
        self, served_model: str, lane: str, tenant: str, forecasts: Sequence[Forecast]
    ) -> list[Forecast]:
        """``forecasts`` as they are given out; as they are when that fails."""
        try:
            return self.acting.stamp(served_model, lane, tenant, forecasts)
        except Exception as error:
            log.error("forecasts went out as the ranker made them: %s", failure(error))
            return list(forecasts)

    def told(self, outcomes: int) -> None:
        """So many more outcomes were stored. Returns at once."""
        with self._lock:
            now, alerts = self._clock(), self._watched.alerts
            self._unasked += outcomes
            due = self._unasked > 0 and abs(now - self._asked) >= _SECONDS
            if not due and alerts == self._alerts:
                return
            self._unasked, self._asked, self._alerts = 0, now, alerts
        self._watched.work.submit("act", self.look)

    def look(self) -> None:
        """Ask the monitor where everything stands, and act on it: in one thread at a time."""
        now = self._clock()
        changes = self.acting.look(self._watched.standings(), self._watched.recent, now)
        if not self._looked:  # a restart acts anew on what it finds
            changes = [
                replace(change, why=f"found at the start: {change.why}") for change in changes
            ]
            self._looked = True
        for change in changes:
            self._announce(change.entry(now))
