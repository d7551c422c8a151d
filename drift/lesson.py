"""What a reference is learned from: a value that any thread can work on. Half a second to two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from drift.config import MonitorConfig
from drift.key import Key
from drift.reference import Reference
from ranker.types import Outcome


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """``outcomes``: those of one series that are taken to be good, in arrival order. ``due``: the
    arrival of the outcome upon which it was time to learn, the ``number``-th of the series; ``of``:
    how many kept ones there were by then, good or not.
    """

    key: Key
    config: MonitorConfig
    outcomes: Sequence[Outcome]
    due: float
    number: int
    of: int

    def learn(self) -> Reference | None:
        """``None`` when there is nothing to learn: too few, or no order. Pure."""
        try:
            return Reference.learn(self.outcomes, self.config)
        except ValueError:
            return None


@dataclass(slots=True)
class School:
    """Lessons of all series of a monitor. With ``deferred`` they wait here for somebody to work on
    them and give them back, at most one of each series; else a series learns where it stands."""

    deferred: bool = False
    waiting: list[Lesson] = field(default_factory=list)

    def take(self) -> list[Lesson]:
        """Those that wait, the oldest first."""
        taken, self.waiting = self.waiting, []
        return taken
