"""Where reported outcomes go: onto disk first, then to the monitor, then into the event log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from drift.acting.standing import Standing, standings
from drift.board import Board, board
from drift.book import Book
from drift.chores import Chores
from drift.config import MonitorConfig
from drift.delivery import Delivery, Receipt
from drift.events import Event, EventLog
from drift.figures import Faults
from drift.keeping import KeepConfig
from drift.key import Key
from drift.monitor import Monitor, Snapshot
from drift.outbox import Outbox
from drift.outcomes import OutcomeStore
from drift.recovery import recover
from drift.stream import Point
from drift.valuer import ValueConfig, Valuer
from drift.values_file import load_values, values_path
from drift.view import Worked
from drift.worker import Inline, Work
from ranker.types import Forecast, Outcome

log = logging.getLogger(__name__)


class MonitoredStore:
    """An outcome sink that is watched. Safe for several threads.

    Who reports waits for the disk and for the monitor's few microseconds. All that takes long is
    handed to ``work``, which it closes with itself: telling events, learning references, replaying
    windows for their SJF efficiency (in turn, as ``value`` says), deleting what ``keep`` does not
    keep. :class:`~drift.worker.Inline` does it at once. With a
    :class:`~drift.worker.Worker` a reference counts from when it is learned, for all that came
    since it was time to; events keep their order.

    ``clock`` gives Unix seconds. A duplicate is not weighed twice. Trouble with the monitor or the
    event log never fails a report: what is on disk is acknowledged.

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
        work: Work | None = None,
        keep: KeepConfig | None = None,
    ) -> None:
        self.work: Work = work or Inline()  #: for whatever else takes long and goes with it
        self._store = store
        self._monitor = monitor
        self._clock = clock
        self._lock = threading.Lock()
        self._showing, self._worked = threading.Lock(), Worked()
        self._book = Book()
        self._outbox = Outbox(events, clock, on_event, self.work)
        self._valuer = Valuer(value)
        try:
            self._valuer.restore(load_values(values_path(store.path)))
        except (OSError, ValueError) as error:  # replays will give it anew
            log.warning("%s", error)
        self._chores = Chores(
            self.work, self._lock, store, monitor, self._valuer, self._outbox, clock, keep
        )

    @classmethod
    def open(
        cls,
        outcomes: Path,
        events: Path,
        clock: Callable[[], float],
        config: MonitorConfig | None = None,
        on_event: Callable[[Event], None] | None = None,
        value: ValueConfig | None = None,
        work: Work | None = None,
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
        return cls(store, monitor, EventLog(events), clock, on_event, value, work)

    def receive(self, delivery: Delivery, received: float) -> Receipt:
        """Store what a reporter handed over at Unix second ``received`` durably, then weigh it.

        Times of a clock that is ahead or behind are put right first. Raises ``sqlite3.Error`` when
        the outcomes could not be stored; then none of them was.
        """
        with self._lock:  # the monitor sees outcomes in the order in which they were stored
            delivery = self._book.put_right(delivery, received)
            try:
                stored = self._store.put(delivery.outcomes)
            except Exception:
                self._book.refuse(len(delivery.outcomes))
                raise
            late = self._monitor.totals[0]
            for outcome in stored.new:
                self._chores.weigh(partial(self._monitor.update, outcome))
            self._book.take(delivery, stored, max(0, self._monitor.totals[0] - late))
            self._chores.weigh(partial(self._note, delivery))
        if stored.conflicts:
            log.warning(
                "%d outcomes of reporter %r were known with other numbers; the first count",
                stored.conflicts,
                delivery.reporter,
            )
        self._chores.hand_over(len(stored.new))
        return Receipt(len(stored.new), stored.duplicates, stored.conflicts)

    def store(self, outcomes: Sequence[Outcome]) -> tuple[int, int]:
        """:meth:`receive` from nobody in particular; how many were new and how many were known."""
        newest = max((o.finished for o in outcomes), default=0.0)
        receipt = self.receive(Delivery(outcomes), max(self._clock(), newest))
        return receipt.stored, receipt.duplicates

    def ranked(self, served_model: str, forecasts: Sequence[Forecast], now: float) -> None:
        """Forecasts were given out at Unix second ``now``: outcomes of them should come."""
        with self._lock:
            self._book.ranked(served_model, forecasts, now)

    def superseded(self, served_model: str, ranker: str, version: str) -> None:
        """That ranker version is what ``served_model`` uses from now on: what is known of others of
        it is over, and outcomes that still come of them are stored but not weighed."""
        with self._lock:
            at = self._clock()
            self._chores.weigh(partial(self._monitor.supersede, served_model, ranker, version, at))
        self._chores.hand_over(0)

    def flush(self) -> None:
        """Weigh what the monitor holds back for order: before the service ends."""
        with self._lock:
            self._chores.weigh(self._monitor.flush)
        self._chores.hand_over(0)

    def snapshots(self) -> list[Snapshot]:
        """Every ranker version as a whole."""
        with self._lock:
            return self._monitor.snapshots()

    def slices(self, served_model: str) -> list[Snapshot]:
        """Slices of the version that ``served_model`` uses now."""
        with self._lock:
            return self._monitor.slices(served_model)

    def standings(self) -> list[Standing]:
        """What of every series in use decides how it is acted on; some 50 us each."""
        with self._lock:
            return standings(self._monitor, self._valuer)

    def recent(self, key: Key) -> tuple[Outcome, ...]:
        """The outcomes in the window of one series, oldest first; none when it is unknown."""
        with self._lock:
            try:
                return self._monitor.recent(key)
            except KeyError:
                return ()

    def history(self, key: Key) -> tuple[Point, ...]:
        with self._lock:
            return self._monitor.history(key)

    @property
    def alerts(self) -> int:
        """How many the monitor has raised since the start; waits for nothing."""
        return self._outbox.alerts

    def counts(self) -> dict[tuple[str, bool, str], int]:
        """Outcomes stored since the start, by served model, scored, and finish reason."""
        with self._lock:
            return dict(self._book.counts)

    def faults(self) -> Faults:
        """What went wrong with reports since the start."""
        with self._lock:
            return self._faults()

    def board(self) -> Board:
        """All of it, as the dashboard shows it. Reports wait for a copy of what is known only, not
        until it is worked out."""
        with self._showing:
            with self._lock:
                now = self._clock()
                self._chores.look(now)
                view, values = self._monitor.view(self._worked), self._valuer.values()
                reporters, faults = self._book.reporters(), self._faults()
                survival = self._book.survival(now)
            self._outbox.send()
            return board(view, values, now, reporters, faults, survival)

    def close(self) -> None:
        """Flush the monitor, do what waits, and close the store."""
        self.flush()
        self._chores.finish()
        self.work.close()
        self._store.close()

    def _faults(self) -> Faults:
        late, bounds, settled = self._monitor.totals
        jobs = self.work.dropped
        return replace(self._book.faults, late=late, bounds=bounds, settled=settled, jobs=jobs)

    def _note(self, delivery: Delivery) -> list[Event]:
        self._monitor.note(delivery.open)
        return []
