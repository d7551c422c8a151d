"""Where reported outcomes go: onto disk first, then to the monitor, then into the event log."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from drift.baselines_file import load_baselines, save_baselines
from drift.board import Board, board
from drift.config import MonitorConfig
from drift.delivery import Delivery, Receipt
from drift.events import Event, EventLog
from drift.figures import Faults
from drift.key import Key
from drift.monitor import Monitor, Snapshot
from drift.opened import Open
from drift.outcomes import OutcomeStore
from drift.plain import one_line
from drift.reference import load_references, save_references
from drift.reporters import Reporters
from drift.stream import Point
from drift.survivors import Survivors
from drift.valuer import ValueConfig, Valuer
from ranker.types import Forecast, Outcome

log = logging.getLogger(__name__)

#: Labels that outcomes are counted by at most, whatever served models reporters name.
_LABELS = 512


class MonitoredStore:
    """An outcome sink that is watched. Safe for several threads.

    ``clock`` gives Unix seconds, for the log alone. A duplicate is not weighed twice. Trouble with
    the monitor or the event log never fails a report: what is on disk is acknowledged. The windows
    of the series are replayed for their SJF efficiency in turn, as ``value`` says; a replay takes
    its time after the report is on disk and may hold up the acknowledgement by as much.

    The log of events is a record for people and not exact across restarts; the state always is what
    the stored outcomes give. An event is logged after the outcomes that caused it are on disk, so a
    crash between the two, or trouble with the log's disk, leaves it out for good: the replay of a
    restart tells what it finds to ``recover``'s caller alone. And what :meth:`close` weighed ahead
    of its order is weighed again in order after a restart, so a change of state that the flush
    brought about can be logged a second time, at a slightly later outcome. Requests under way are
    not stored: their engine tells of them again, and one that had entered as a lower bound before
    the restart counts as late when it ends.
    """

    def __init__(
        self,
        store: OutcomeStore,
        monitor: Monitor,
        events: EventLog,
        clock: Callable[[], float],
        on_event: Callable[[Event], None] | None = None,
        value: ValueConfig | None = None,
    ) -> None:
        self._store = store
        self._monitor = monitor
        self._events = events
        self._clock = clock
        self._on_event = on_event
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, bool, str], int] = {}
        self._valuer = Valuer(value)
        self._unasked, self._asked = 0, float("-inf")
        self._reporters = Reporters()
        self._survivors: OrderedDict[Key, Survivors] = OrderedDict()
        self._faults = Faults()

    @classmethod
    def open(
        cls,
        outcomes: Path,
        events: Path,
        clock: Callable[[], float],
        config: MonitorConfig | None = None,
        on_event: Callable[[Event], None] | None = None,
        value: ValueConfig | None = None,
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
        return cls(store, monitor, EventLog(events), clock, on_event, value)

    def receive(self, delivery: Delivery, received: float) -> Receipt:
        """Store what a reporter handed over at Unix second ``received`` durably, then weigh it.

        Times of a clock that is ahead or behind are put right first. Raises ``sqlite3.Error`` when
        the outcomes could not be stored; then none of them was.
        """
        with self._lock:  # the monitor sees outcomes in the order in which they were stored
            delivery, mended = self._reporters.put_right(delivery, received)
            try:
                stored = self._store.put(delivery.outcomes)
            except Exception:
                refused = self._faults.refused + len(delivery.outcomes)
                self._faults = replace(self._faults, refused=refused)
                raise
            reporter = self._reporters.of(delivery.reporter)
            reporter.took(stored.new)
            late = self._monitor.totals[0]
            for outcome in stored.new:
                self._count(outcome)
                self._guarded(partial(self._monitor.update, outcome))
            reporter.late += max(0, self._monitor.totals[0] - late)
            self._guarded(partial(self._note, delivery.open))
            self._faults = replace(
                self._faults,
                duplicates=self._faults.duplicates + stored.duplicates,
                conflicts=self._faults.conflicts + stored.conflicts,
                clock=self._faults.clock + mended + delivery.mended,
            )
        if stored.conflicts:
            log.warning(
                "%d outcomes of reporter %r were known with other numbers; the first count",
                stored.conflicts,
                delivery.reporter,
            )
        if self._value_soon(len(stored.new)):
            self._value_one()
        return Receipt(len(stored.new), stored.duplicates, stored.conflicts)

    def store(self, outcomes: Sequence[Outcome]) -> tuple[int, int]:
        """:meth:`receive` from nobody in particular; how many were new and how many were known."""
        newest = max((o.finished for o in outcomes), default=0.0)
        receipt = self.receive(Delivery(outcomes), max(self._clock(), newest))
        return receipt.stored, receipt.duplicates

    def ranked(self, served_model: str, forecasts: Sequence[Forecast], now: float) -> None:
        """Forecasts were given out at Unix second ``now``: outcomes of them should come."""
        with self._lock:
            for forecast in forecasts:
                key = Key(served_model, forecast.ranker, forecast.version)
                self._survivors_of(key).rank(forecast.score, now)

    def flush(self) -> None:
        """Weigh what the monitor holds back for order: before the service ends."""
        with self._lock:
            self._guarded(self._monitor.flush)

    def snapshots(self) -> list[Snapshot]:
        """Every ranker version as a whole."""
        with self._lock:
            return self._monitor.snapshots()

    def slices(self, served_model: str) -> list[Snapshot]:
        """Slices of the version that ``served_model`` uses now."""
        with self._lock:
            return self._monitor.slices(served_model)

    def history(self, key: Key) -> tuple[Point, ...]:
        with self._lock:
            return self._monitor.history(key)

    def counts(self) -> dict[tuple[str, bool, str], int]:
        """Outcomes stored since the start, by served model, scored, and finish reason."""
        with self._lock:
            return dict(self._counts)

    def faults(self) -> Faults:
        """What went wrong with reports since the start."""
        with self._lock:
            late, bounds, settled = self._monitor.totals
            return replace(self._faults, late=late, bounds=bounds, settled=settled)

    def board(self) -> Board:
        """All of it, as the dashboard shows it."""
        faults = self.faults()
        with self._lock:
            now = self._clock()
            looks = {key: survivors.look(now) for key, survivors in self._survivors.items()}
            return board(self._monitor, self._valuer, now, self._reporters.rows(), faults, looks)

    def close(self) -> None:
        """Flush the monitor and close the store."""
        self.flush()
        self._store.close()

    def _count(self, outcome: Outcome) -> None:
        forecast = outcome.forecast
        label = (outcome.served_model, forecast is not None, str(outcome.finish_reason))
        if label in self._counts or len(self._counts) < _LABELS:
            self._counts[label] = self._counts.get(label, 0) + 1
        if forecast is not None:
            key = Key(outcome.served_model, forecast.ranker, forecast.version)
            self._survivors_of(key).report(forecast.score, outcome.arrival, outcome.finished)

    def _survivors_of(self, key: Key) -> Survivors:
        survivors = self._survivors.get(key)
        if survivors is None:
            survivors = self._survivors[key] = Survivors()
            if len(self._survivors) > 32:
                self._survivors.popitem(last=False)
        return survivors

    def _note(self, requests: Sequence[Open]) -> list[Event]:
        self._monitor.note(requests)
        return []

    def _value_soon(self, new: int) -> bool:
        """Whether it is time to ask whose turn it is: not for every outcome that comes alone."""
        with self._lock:
            now = self._clock()
            self._unasked += new
            if self._unasked < 50 and abs(now - self._asked) < 1.0:
                return False
            self._unasked, self._asked = 0, now
        return True

    def _value_one(self) -> None:
        """Replay the window of the series whose turn it is, if it is anybody's."""
        with self._lock:
            turn = self._valuer.due(self._monitor.progress(), self._clock())
            if turn is None:
                return
            window = self._monitor.recent(turn.key)
        try:
            found = self._valuer.replay(turn, window)
        except Exception:
            log.exception("the replay for SJF efficiency failed; the outcomes are stored")
            return
        if found is not None:
            with self._lock:
                self._valuer.record(turn, found)

    def _guarded(self, weigh: Callable[[], list[Event]]) -> None:
        try:
            events = weigh()
            if not events:
                return
            for event in events:
                level = logging.WARNING if event.alert else logging.INFO
                log.log(level, "%s", one_line(event.message))
            try:
                self._events.append(events, self._clock())
                if any(event.kind == "reference" for event in events):
                    save_references(references_path(self._store.path), self._monitor.references())
                    save_baselines(baselines_path(self._store.path), self._monitor.baselines())
            finally:  # a log on a full disk keeps nobody from being told
                if self._on_event is not None:
                    for event in events:
                        self._on_event(event)
        except Exception:
            log.exception("the drift monitor failed on an outcome; the outcome is stored")


def references_path(outcomes: Path) -> Path:
    """Where the references of a store of outcomes are kept: beside it."""
    return outcomes.with_name(outcomes.name + ".references.json")


def baselines_path(outcomes: Path) -> Path:
    """Where the distributions that go with the references are kept: beside them."""
    return outcomes.with_name(outcomes.name + ".baselines.json")


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
    references, baselines = {}, {}
    if len(store) > last:
        references = load_references(references_path(store.path))
        baselines = load_baselines(baselines_path(store.path))
    monitor = Monitor(config, references, baselines)
    for outcome in store.by_report(last):
        for event in monitor.update(outcome):
            if on_event is not None:
                on_event(event)
    return monitor
