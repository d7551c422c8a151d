"""How far trust has come within one state: down at once, up after a dwell, and not for little."""

from __future__ import annotations

from dataclasses import dataclass

from drift.states import State

#: Trust is a multiple of this: small changes of worth are none. In one state it moves by twice as
#: much, or to where it may go at most.
STEP = 0.05

#: Outcomes for which more has to be left before trust rises within ``warn``.
DWELL = 100


@dataclass(slots=True)
class Level:
    """The trust of one series in one state. ``more``: what was left at least since ``since``, in
    outcomes of it, when that is more; ``None``: it is not."""

    state: State
    trust: float
    more: float | None = None
    since: int = 0

    def move(self, aim: float, outcomes: int, most: float) -> None:
        """Go towards ``aim``, of ``most`` at most: down at once, up after a dwell."""
        if aim <= self.trust:
            self.more = None
            if self.state > State.WARN or self._far(aim):
                self.trust = aim
        elif self.state is State.WARN:
            if self.more is None:
                self.more, self.since = aim, outcomes
            self.more = min(self.more, aim)
            if outcomes - self.since < DWELL:
                return
            if self._far(self.more) or self.more == most:
                self.trust = self.more
            self.more = None

    def _far(self, aim: float) -> bool:
        return abs(aim - self.trust) > 1.5 * STEP
