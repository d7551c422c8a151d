"""Where reported outcomes go: onto disk first, then to the monitor, then into the event log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from drift.config import MonitorConfig
from drift.efficiency import ReplayConfig, efficiency
from drift.events import Event, EventLog
from drift.key import Key
from drift.monitor import Monitor, Snapshot
from drift.outcomes import OutcomeStore
from drift.reference import load_references, save_references
from drift.stream import Point
from engine.efficiency import Efficiency
from ranker.types import Outcome

log = logging.getLogger(__name__)


class MonitoredStore:
    """An outcome sink that is watched. Safe for several threads.

    ``clock`` gives Unix seconds, for the log alone. A duplicate is not weighed twice. Trouble with
    the monitor or the event log never fails a report: what is on disk is acknowledged. The window
    of a stream is replayed for its SJF efficiency every ``replay_every`` outcomes.

    The log of events is a record for people and not exact across restarts; the state always is what
    the stored outcomes give. An event is logged after the outcomes that caused it are on disk, so a
    crash between the two, or trouble with the log's disk, leaves it out for good: the replay of a
    restart tells what it finds to ``recover``'s caller alone. And what :meth:`close` weighed ahead
    of its order is weighed again in order after a restart, so a change of state that the flush
    brought about can be logged a second time, at a slightly later outcome.
    """

    def __init__(
        self,
        store: OutcomeStore,
        monitor: Monitor,
        events: EventLog,
        clock: Callable[[], float],
        on_event: Callable[[Event], None] | None = None,
        replay: ReplayConfig | None = None,
        replay_every: int = 250,
    ) -> None:
        if replay_every < 1:
            raise ValueError(f"replay_every must be >= 1, got {replay_every}")
        self._store = store
        self._monitor = monitor
        self._events = events
        self._clock = clock
        self._on_event = on_event
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, bool, str], int] = {}
        self._replay = replay
        self._replay_every = replay_every
        self._replayed: dict[str, tuple[int, Key, Efficiency | None]] = {}

    @classmethod
    def open(
        cls,
        outcomes: Path,
        events: Path,
        clock: Callable[[], float],
        config: MonitorConfig | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> MonitoredStore:
        """A sink on two files, made when missing, with the monitor where a restart left it.

        Raises ``ValueError`` when ``outcomes`` is not a store of outcomes.
        """
        store = OutcomeStore(outcomes)
        try:
            monitor = recover(store, config)
        except BaseException:
            store.close()
            raise
        return cls(store, monitor, EventLog(events), clock, on_event)

    def store(self, outcomes: Sequence[Outcome]) -> tuple[int, int]:
        """Store ``outcomes`` durably; return how many were new and how many were known.

        Raises ``sqlite3.Error`` when they could not be stored; then none of them was.
        """
        with self._lock:  # the monitor sees outcomes in the order in which they were stored
            new = self._store.insert(outcomes)
            for outcome in new:
                self._count(outcome)
                self._guarded(partial(self._monitor.update, outcome))
            for model in {outcome.served_model for outcome in new}:
                self._value_order(model)
        return len(new), len(outcomes) - len(new)

    def flush(self) -> None:
        """Weigh what the monitor holds back for order: before the service ends."""
        with self._lock:
            self._guarded(self._monitor.flush)

    def snapshots(self) -> list[Snapshot]:
        with self._lock:
            return self._monitor.snapshots()

    def history(self, key: Key) -> tuple[Point, ...]:
        with self._lock:
            return self._monitor.history(key)

    def counts(self) -> dict[tuple[str, bool, str], int]:
        """Outcomes stored since the start, by served model, scored, and finish reason."""
        with self._lock:
            return dict(self._counts)

    def efficiencies(self) -> dict[Key, Efficiency]:
        """The last replay of each stream that its served model uses now."""
        with self._lock:
            return {key: e for _, key, e in self._replayed.values() if e is not None}

    def close(self) -> None:
        """Flush the monitor and close the store."""
        self.flush()
        self._store.close()

    def _count(self, outcome: Outcome) -> None:
        label = (outcome.served_model, outcome.forecast is not None, str(outcome.finish_reason))
        self._counts[label] = self._counts.get(label, 0) + 1

    def _value_order(self, served_model: str) -> None:
        """Replay the window when it has moved on far enough."""
        snapshot = self._monitor.snapshot(served_model)
        if snapshot is None:
            return
        before = self._replayed.get(served_model)
        if before is not None and before[1] == snapshot.key:
            if snapshot.outcomes - before[0] < self._replay_every:
                return
        elif snapshot.outcomes < self._replay_every:
            return
        try:
            value = efficiency(self._monitor.recent(snapshot.key), self._replay)
        except Exception:
            log.exception("the replay for SJF efficiency failed; the outcomes are stored")
            value = None
        self._replayed[served_model] = (snapshot.outcomes, snapshot.key, value)

    def _guarded(self, weigh: Callable[[], list[Event]]) -> None:
        try:
            events = weigh()
            for event in events:
                log.log(logging.WARNING if event.alert else logging.INFO, "%s", event.message)
            self._events.append(events, self._clock())
            if any(event.kind == "reference" for event in events):
                save_references(references_path(self._store.path), self._monitor.references())
            if self._on_event is not None:
                for event in events:
                    self._on_event(event)
        except Exception:
            log.exception("the drift monitor failed on an outcome; the outcome is stored")


def references_path(outcomes: Path) -> Path:
    """Where the references of a store of outcomes are kept: beside it."""
    return outcomes.with_name(outcomes.name + ".references.json")


def recover(
    store: OutcomeStore,
    config: MonitorConfig | None = None,
    last: int = 5_000,
    on_event: Callable[[Event], None] | None = None,
) -> Monitor:
    """A monitor that has weighed the ``last`` stored outcomes again.

    With more stored than that, it measures against the references that were saved when they were
    learned: the oldest of the last outcomes may already have drifted. ``on_event`` gets the events
    of the replay; those that a running service had are in its log.
    """
    references = load_references(references_path(store.path)) if len(store) > last else {}
    monitor = Monitor(config, references)
    for outcome in store.by_report(last):
        for event in monitor.update(outcome):
            if on_event is not None:
                on_event(event)
    return monitor
