"""When one stream learns a reference, and from what."""

from __future__ import annotations

from collections import deque

from drift.config import MonitorConfig
from drift.detectors.cusum import Cusum
from drift.detectors.observation import Observation
from drift.key import Key
from drift.lesson import Lesson, School
from drift.reference import Reference
from drift.states import State
from ranker.types import Outcome


class Learning:
    """Keeps the first outcomes while all is well; after ``reference_first`` of them, and at each
    doubling up to ``reference_most``, it is time for a lesson. One at a time, and each is of the
    outcomes up to that number, however many more came while the one before was worked on, and
    whatever happened to those.

    ``learnable`` is false when the last lesson gave nothing and no earlier one had either.
    """

    def __init__(self, key: Key, config: MonitorConfig, known: bool, school: School) -> None:
        self.learnable = True
        self._key, self._config, self._school = key, config, school
        self._known = known
        self._kept: list[tuple[int, Outcome]] = []
        self._at = 0 if known else config.reference_first
        self._scored = 0  # since the first one that is kept
        self._lesson: Lesson | None = None
        self._since: deque[Observation] = deque(maxlen=4 * config.reference_most)

    def see(
        self, outcome: Outcome, seen: Observation, number: int, state: State, chart: Cusum | None
    ) -> Lesson | None:
        """Keep a scored outcome, the ``number``-th of the stream; a lesson to be learned now, if it
        is time for one and lessons are not put off."""
        if self._lesson is not None:
            self._since.append(seen)
        if not self._at:
            return None
        self._scored += 1
        if len(self._kept) < self._config.reference_most:
            self._kept.append((number, outcome))
        if self._lesson is not None or len(self._kept) < self._at:
            return None
        good = self._at
        if chart is not None:
            climbed, since = chart.since_zero, self._scored - self._at
            if state is not State.OK and not 0 < climbed <= since:
                self._stop()  # what drifted must not become the reference
                return None
            good = max(0, min(good, self._scored - climbed))  # nor what the chart has climbed by
        of = tuple(outcome for _, outcome in self._kept[:good])
        due, last = self._kept[self._at - 1]
        self._lesson = Lesson(self._key, self._config, of, last.arrival, due, self._at)
        if not self._school.deferred:
            return self._lesson
        self._school.waiting.append(self._lesson)
        return None

    def end(self, lesson: Lesson, reference: Reference | None) -> tuple[Observation, ...] | None:
        """Take note of what ``lesson`` gave; what was seen since it was asked for, for the new
        detectors. ``None`` when it is not the last one: it counts for nothing then."""
        if lesson is not self._lesson:
            return None
        since = tuple(self._since)
        self._lesson = None
        self._since.clear()
        self._known |= reference is not None
        self.learnable = self._known
        if reference is None:
            self._kept = self._kept[lesson.of // 2 :]
            self._scored -= lesson.of // 2
        elif lesson.of >= self._config.reference_most:
            self._stop()
        else:
            self._at = next(at for at in self._config.lessons if at > self._at)
        return since

    def _stop(self) -> None:
        self._at, self._kept = 0, []
