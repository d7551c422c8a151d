"""One series: the stream that judges it, and the window and reference that describe it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from drift.config import MonitorConfig
from drift.events import Event
from drift.features import Baselines, Columns
from drift.key import Key
from drift.lesson import Lesson, School
from drift.reference import Reference
from drift.slices import Part
from drift.states import State
from drift.stream import Stream
from drift.window import Window
from ranker.types import Outcome


class Series:
    """Feed outcomes in arrival order with :meth:`update`; what missed its place with :meth:`late`.

    The stream's detectors see each outcome once, in order. The window also holds late ones, and the
    true end of what entered as a lower bound, so its statistics are those of what arrived.
    """

    def __init__(
        self,
        key: Key,
        config: MonitorConfig,
        reference: Reference | None,
        baselines: Baselines | None = None,
        school: School | None = None,
    ) -> None:
        self.key = key
        self.stream = Stream(key, config, reference, school)
        self.window = Window(config.window)
        self.baselines = baselines
        self.first_arrival = math.inf
        self.last_arrival = -math.inf
        self.changes = 0  #: what was added to or replaced in the window
        self.weighed = 0  #: outcomes of its served model when it last weighed one
        self.closed = False  #: not watched any more; kept to be shown
        self._parts: dict[Part, Key] = {}
        self._most = config.reference_most
        self._first: list[Outcome] | None = [] if baselines is None else None
        self._enough = config.reference_first

    def update(self, outcome: Outcome, bound: bool = False) -> list[Event]:
        """Weigh one outcome; ``bound``: it is still under way and may end later."""
        self._take(outcome, bound)
        events = self.stream.update(outcome)
        self._learn(outcome, any(event.kind == "reference" for event in events))
        return events

    def ended(self, outcome: Outcome) -> None:
        """One has ended; :meth:`update` or :meth:`late` has it when its turn has come."""
        self.stream.ended(outcome)

    def learned(self, lesson: Lesson, reference: Reference | None) -> list[Event]:
        """A lesson that was put off has been worked on."""
        events = self.stream.learned(lesson, reference)
        if events and self._first:
            self._describe(self._first[: lesson.number])
        return events

    def close(self, at: float, why: str) -> list[Event]:
        """It is not watched any more from Unix second ``at``: its state, if it had left ok, is
        over."""
        self.closed = True
        return self.stream.closed(max(at, self.last_arrival), why)

    def late(self, outcome: Outcome) -> None:
        """Into the statistics, not to the detectors: they go by order."""
        if len(self.window) == 0 or outcome.arrival >= next(iter(self.window)).arrival:
            self._take(outcome, False)

    def settle(self, outcome: Outcome) -> None:
        """What entered as a lower bound has ended."""
        self.changes += self.window.settle(outcome)

    def look(self) -> list[Event]:
        """Look at the window now: at the end of a stream."""
        return self.stream.look()

    @property
    def recent(self) -> tuple[Outcome, ...]:
        """The window, oldest first."""
        return tuple(self.window)

    def slice(self, part: Part) -> Key:
        """The key of one lane and tenant of this version, made once."""
        key = self._parts.get(part)
        if key is None:
            if len(self._parts) >= 256:
                self._parts.clear()
            key = self._parts[part] = replace(self.key, lane=part[0], tenant=part[1])
        return key

    def _take(self, outcome: Outcome, bound: bool) -> None:
        self.changes += 1
        self.window.add(outcome, bound)
        self.first_arrival = min(self.first_arrival, outcome.arrival)
        self.last_arrival = max(self.last_arrival, outcome.arrival)

    def _learn(self, outcome: Outcome, referenced: bool) -> None:
        """The distributions of the outcomes that the reference is learned from."""
        if self._first is None:
            return
        self._first.append(outcome)
        full = len(self._first) >= self._most
        first = self.baselines is None and (full or self.stream.reference is not None)
        # What drifted must not become what is usual.
        last = full and self.stream.state is State.OK
        if referenced or last or (first and len(self._first) >= self._enough):
            self._describe(self._first)
        if full:
            self._first = None

    def _describe(self, outcomes: Sequence[Outcome]) -> None:
        self.baselines = Baselines.of(Columns.of(outcomes))
        self.changes += 1
