"""ok, warn, degraded, fcfs: how far an operator should still trust the forecasts. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class State(IntEnum):
    """Ordered by severity. ``FCFS``: the forecasts order no better than arrival does."""

    OK = 0
    WARN = 1
    DEGRADED = 2
    FCFS = 3

    def __str__(self) -> str:
        return self.name.lower()

    @property
    def advice(self) -> str:
        """What to do, one line."""
        return _ADVICE[self]


_ADVICE = {
    State.OK: "nothing to do",
    State.WARN: "watch it; look at what traffic changed",
    State.DEGRADED: "shrink the express tier or raise gamma, and retrain on recent outcomes",
    State.FCFS: "schedule by fcfs until a retrained ranker is promoted",
}


@dataclass(frozen=True, slots=True)
class StateConfig:
    """``dwell``: outcomes for which evidence must stay below a state before it falls one level."""

    dwell: int = 200

    def __post_init__(self) -> None:
        if self.dwell < 1:
            raise ValueError(f"states.dwell must be >= 1, got {self.dwell}")


@dataclass(frozen=True, slots=True)
class Evidence:
    """``enter``: the state it is strong enough to enter. ``stay``: to stay in, never lower.
    ``cause``: what it says has decayed; empty when nothing has."""

    enter: State
    stay: State
    reasons: tuple[str, ...] = ()
    cause: str = ""

    def __post_init__(self) -> None:
        if self.stay < self.enter:
            raise ValueError("evidence.stay must not lie below evidence.enter")

    def __or__(self, other: Evidence) -> Evidence:
        """The more severe of each; the reasons of the one that enters higher come first."""
        first, second = (self, other) if self.enter >= other.enter else (other, self)
        return Evidence(
            first.enter,
            max(self.stay, other.stay),
            (*first.reasons, *second.reasons),
            first.cause or second.cause,
        )


NO_EVIDENCE = Evidence(State.OK, State.OK)


class StateMachine:
    """Rises at once to what the evidence supports; falls one level at a time, after a dwell.

    Rising needs no delay of its own: the evidence already carries its false-alarm rate. Between
    ``enter`` and ``stay`` lies the hysteresis.
    """

    def __init__(self, config: StateConfig) -> None:
        self._config = config
        self._below = 0
        self.state = State.OK

    def update(self, evidence: Evidence, outcomes: int) -> tuple[State, State] | None:
        """Weigh evidence after ``outcomes`` more outcomes; return (from, to) when it moved."""
        before = self.state
        if evidence.enter > before:
            self.state = evidence.enter
            self._below = 0
        elif evidence.stay >= before:
            self._below = 0
        else:
            self._below += outcomes
            if self._below >= self._config.dwell:
                self.state = State(before - 1)
                self._below = 0
        return (before, self.state) if self.state is not before else None

    def reset(self) -> None:
        """Nothing is known any more."""
        self._below = 0
        self.state = State.OK
