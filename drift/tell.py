"""Where events go once they are logged: into the history, then to whoever wants to be told."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from drift.entry import Entry
from drift.events import Event
from drift.history import History
from drift.notify.notifier import Notifier

log = logging.getLogger(__name__)


class Teller:
    """``MonitoredStore(on_event=Teller(...))``. Safe for several threads; raises nothing.

    Trouble with the history's disk keeps nobody from being told. ``clock`` gives Unix seconds.
    """

    def __init__(
        self, history: History, notifier: Notifier | None, clock: Callable[[], float]
    ) -> None:
        self._history = history
        self._notifier = notifier
        self._clock = clock

    def __call__(self, event: Event) -> None:
        self.tell([Entry.of(event)])

    def tell(self, entries: Sequence[Entry]) -> None:
        """Write ``entries`` and tell those that are new: promotions and actions come here too."""
        try:
            new: Sequence[Entry] = self._history.add(entries, self._clock())
        except (sqlite3.Error, ValueError) as error:
            log.error("the drift history could not be written: %s", error)
            new = entries
        if self._notifier is not None:
            for entry in new:
                self._notifier.tell(entry)

    def resume(self, replayed: Iterable[Event], standing: Iterable[Entry]) -> None:
        """After a restart: take up the alerts that fire, and tell what a crash left untold.

        ``replayed``: the events that the stored outcomes gave when they were weighed again.
        ``standing``: where each slice of the ranker version in use stands by them. Where the
        history says otherwise (the last outcomes before the end were weighed ahead of their turn,
        a slice isn't watched any more), it and whoever was alerted are put right.
        """
        now = self._clock()
        if self._notifier is not None:
            self._notifier.restore(self._history.states().values())
        self.tell(self._history.missed(replayed))
        stands = {entry.slice: entry for entry in standing}
        for where, told in self._history.states().items():
            entry = stands.get(where, replace(told, after="ok", advice="", details={}))
            if entry.after != told.after:
                self.tell([_correction(entry, told, max(now, told.at))])


def _correction(entry: Entry, told: Entry, at: float) -> Entry:
    reason = "after a restart the stored outcomes say so"
    return replace(
        entry, at=at, kind="state", before=told.after, cause="", reasons=(reason,), message=reason
    )
