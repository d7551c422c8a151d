"""What a monitored store has to do that takes long, and when each is due."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from drift.baselines_file import save_baselines
from drift.events import Event
from drift.keeping import KeepConfig
from drift.lesson import Lesson
from drift.monitor import Monitor
from drift.outbox import Outbox
from drift.outcomes import OutcomeStore
from drift.recovery import baselines_path, references_path
from drift.reference import save_references
from drift.valuer import Valuer
from drift.values_file import save_values, values_path
from drift.worker import Work

log = logging.getLogger(__name__)

#: Seconds between two looks for series that get nothing any more, and between two times that what
#: replays gave is written down.
_LOOK_S = 60.0


class Chores:
    """Learning references, saving them, replaying windows, deleting old outcomes, telling events:
    each a job for ``work`` that does one piece and comes again for the next.

    ``lock`` guards ``monitor`` and ``valuer``. Jobs hold it for what is quick only.
    """

    def __init__(
        self,
        work: Work,
        lock: threading.Lock,
        store: OutcomeStore,
        monitor: Monitor,
        valuer: Valuer,
        outbox: Outbox,
        clock: Callable[[], float],
        keep: KeepConfig | None,
    ) -> None:
        self._work = work
        self._lock = lock
        self._store = store
        self._monitor = monitor
        self._valuer = valuer
        self._outbox = outbox
        self._clock = clock
        self._keep = keep
        self._lessons: deque[Lesson] = deque()
        self._closing = False
        self._learned = False  # something, since references were saved
        self._valued, self._kept_at = False, float("-inf")
        self._looked = float("-inf")
        self._unasked, self._asked = 0, float("-inf")
        self._unpruned, self._pruned = 0, float("-inf")
        if not work.inline:
            monitor.defer()

    def weigh(self, weigh: Callable[[], list[Event]]) -> None:
        """Under the lock, so that events wait in the order in which they came about. Raises
        nothing."""
        try:
            events = weigh()
        except Exception:
            log.exception("the drift monitor failed on an outcome; the outcome is stored")
            return
        if events:
            self._learned |= any(event.kind == "reference" for event in events)
            self._outbox.put(events)

    def look(self, now: float) -> None:
        """Under the lock: close what has got nothing for long, by Unix second ``now``."""
        if abs(now - self._looked) >= _LOOK_S:
            self._looked = now
            self.weigh(partial(self._monitor.idle, now))

    def hand_over(self, new: int) -> None:
        """Have done whatever is due after ``new`` more outcomes. Not under the lock."""
        with self._lock:
            now = self._clock()
            self.look(now)
            self._lessons.extend(self._monitor.lessons())
            due = {
                self._learn: bool(self._lessons),
                self._save: self._learned,
                self._value: self._is_value_due(new, now),
                self._keep_values: self._valued and abs(now - self._kept_at) >= _LOOK_S,
                self._prune: self._is_prune_due(new, now),
            }
            self._learned = False
        self._outbox.send()
        for job, wanted in due.items():
            if wanted:
                self._work.submit(job.__name__, job)

    def _is_value_due(self, new: int, now: float) -> bool:
        """Whose turn it is isn't asked for every outcome that comes alone."""
        self._unasked += new
        if not new or (self._unasked < 50 and abs(now - self._asked) < 1.0):
            return False
        self._unasked, self._asked = 0, now
        return True

    def _is_prune_due(self, new: int, now: float) -> bool:
        self._unpruned += new
        if self._keep is None or (
            self._unpruned < self._keep.every and abs(now - self._pruned) < self._keep.seconds
        ):
            return False
        self._unpruned, self._pruned = 0, now
        return True

    def _learn(self) -> None:
        with self._lock:
            lesson = self._lessons.popleft() if self._lessons else None
        if lesson is None:
            return
        reference = lesson.learn()
        with self._lock:
            self.weigh(partial(self._monitor.learned, lesson, reference))
        self.hand_over(0)

    def _save(self) -> None:
        with self._lock:
            references, baselines = self._monitor.references(), self._monitor.baselines()
        save_references(references_path(self._store.path), references)
        save_baselines(baselines_path(self._store.path), baselines)

    def _value(self) -> None:
        """Replay the window of the series whose turn it is, if it is anybody's."""
        with self._lock:
            turn = self._valuer.due(
                self._monitor.progress(), self._clock(), self._monitor.versions()
            )
            if turn is None:
                return
            window = self._monitor.recent(turn.key)
        found = self._valuer.replay(turn, window)
        if found is not None:
            with self._lock:
                self._valuer.record(turn, found)
                self._valued = True

    def finish(self) -> None:
        """Before the end: what may have waited for its time. Not under the lock."""
        self._closing = True  # what is too old waits for the next start
        self.hand_over(0)
        if self._valued:
            self._work.submit(self._keep_values.__name__, self._keep_values)

    def _keep_values(self) -> None:
        with self._lock:
            values, self._valued, self._kept_at = self._valuer.known(), False, self._clock()
        save_values(values_path(self._store.path), values)

    def _prune(self) -> None:
        keep = self._keep
        if keep is None:
            return
        before = keep.oldest(self._clock())
        while not self._closing and self._store.prune(before, keep.rows, keep.least, keep.batch):
            if not self._work.inline:
                self._work.submit("_prune", self._prune)
                return
