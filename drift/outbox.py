"""Events on their way out: into the log, then to whoever listens, in order."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from drift.events import Event, EventLog
from drift.plain import one_line
from drift.worker import Work

log = logging.getLogger(__name__)


class Outbox:
    """Disks and listeners take their time, so ``work`` does it. Safe for several threads.

    ``clock`` gives Unix seconds, for the log. At most ``most`` events and those of one report wait.
    """

    def __init__(
        self,
        events: EventLog,
        clock: Callable[[], float],
        on_event: Callable[[Event], None] | None,
        work: Work,
        most: int = 4096,
    ) -> None:
        self._events = events
        self._clock = clock
        self._on_event = on_event
        self._work = work
        self._most = most
        self.alerts = 0  #: of events so far
        self._waiting: deque[Event] = deque()
        self._room = threading.Condition()
        self._telling = threading.Lock()

    def put(self, events: Sequence[Event]) -> None:
        """They are next. Returns at once; :meth:`send` sees to it that they go."""
        with self._room:
            self._waiting.extend(events)
            self.alerts += sum(event.alert for event in events)

    def send(self) -> None:
        """Have what waits told soon. Not for who holds a lock: when the disk can't keep up, this
        waits, so that nothing is lost. A job of the worker does not: it would wait for itself."""
        with self._room:
            if not self._waiting:
                return
        if not self._work.submit("tell", self._tell, urgent=True):
            self._tell()  # the worker is gone: the service ends
        if self._work.inside:
            return
        with self._room:
            self._room.wait_for(lambda: len(self._waiting) <= self._most)

    def _tell(self) -> None:
        with self._telling:  # who comes second waits, so that the order stays
            with self._room:
                events = tuple(self._waiting)
                self._waiting.clear()
                self._room.notify_all()
            for event in events:
                level = logging.WARNING if event.alert else logging.INFO
                log.log(level, "%s", one_line(event.message))
            try:
                self._events.append(events, self._clock())
            except Exception:  # a log on a full disk keeps nobody from being told
                log.exception("drift events could not be logged; the outcomes are stored")
            for event in events if self._on_event is not None else ():
                self._heard(event)

    def _heard(self, event: Event) -> None:
        try:
            if self._on_event is not None:
                self._on_event(event)
        except Exception:
            log.exception("a listener failed on a drift event; the outcomes are stored")
