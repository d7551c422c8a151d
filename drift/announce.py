"""What others than the monitor did (promotions, retraining, actions): logged, kept, told."""

from __future__ import annotations

import logging
from collections.abc import Callable

from drift.entry import Entry
from drift.events import EventLog
from drift.plain import one_line
from drift.tell import Teller

log = logging.getLogger(__name__)


class Announcer:
    """Call it with an entry, from any thread but an event loop's: it writes to disk.

    Into the event log, the history and to the webhooks, as the monitor's own events go. Raises
    nothing: trouble with one of them is logged and keeps nobody else from being told. ``clock``
    gives Unix seconds.
    """

    def __init__(self, events: EventLog, teller: Teller, clock: Callable[[], float]) -> None:
        self._events = events
        self._teller = teller
        self._clock = clock

    def __call__(self, entry: Entry) -> None:
        why = "; ".join((*entry.reasons, *filter(None, (entry.gate, entry.message))))
        change = f"{entry.before or '-'} -> {entry.after or '-'}"
        log.info("%s", one_line(f"{entry.kind} of {entry.served_model}: {change}. {why}"))
        try:
            self._events.note([entry.as_dict()], self._clock())
        except OSError as error:
            log.error("the drift event log could not be written: %s", error.strerror)
        self._teller.tell([entry])
