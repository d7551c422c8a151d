"""Replays for SJF efficiency: one series at a time, with a small share of the CPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from drift.efficiency import ReplayConfig, Worth, worth
from drift.key import Key
from drift.saved import Saved, saved
from drift.states import State
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class ValueConfig:
    """``every``: outcomes of a series between two replays of its window. ``rest``: seconds between
    two replays of any. ``saved_every``: seconds between two looks at the seconds saved; those of a
    slice are not worked out. ``history``: replays kept of a series. ``usual``: replays, made while
    its state was ok, whose median is its usual efficiency.
    """

    every: int = 250
    rest: float = 10.0
    saved_every: float = 300.0
    history: int = 300
    usual: int = 5
    replay: ReplayConfig = field(default_factory=ReplayConfig)

    def __post_init__(self) -> None:
        for name in ("every", "history", "usual"):
            if getattr(self, name) < 1:
                raise ValueError(f"value.{name} must be >= 1, got {getattr(self, name)}")
        for name in ("rest", "saved_every"):
            if getattr(self, name) < 0.0:
                raise ValueError(f"value.{name} must be >= 0, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Valued:
    """One replay: of the window at its ``outcome``-th outcome, whose newest arrived ``at``."""

    at: float
    outcome: int
    worth: Worth


@dataclass(frozen=True, slots=True)
class Turn:
    """Whose window is to be replayed, after how many outcomes, and its state then; ``seconds``: for
    the seconds saved too."""

    key: Key
    outcomes: int
    state: State
    seconds: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """What one turn gave."""

    valued: Valued
    saved: Saved | None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one series: replays, oldest first, the efficiencies of those made while all
    was well, and the seconds saved."""

    values: tuple[Valued, ...]
    good: tuple[float, ...]
    saved: Saved | None


@dataclass(slots=True)
class _Book:
    replayed: int = 0  # outcomes of the series at the last replay
    turn: float = -1.0
    state: State = State.OK
    values: deque[Valued] = field(default_factory=deque)
    good: list[float] = field(default_factory=list)
    saved: Saved | None = None
    saved_at: float | None = None


class Values:
    """What is known of each series: at one moment, or, in a :class:`Valuer`, now."""

    def __init__(self, known: Mapping[Key, Known | _Book]) -> None:
        self._books = known

    def latest(self, key: Key) -> Worth | None:
        """The last replay of ``key``."""
        values = self.history(key)
        return values[-1].worth if values else None

    def history(self, key: Key) -> tuple[Valued, ...]:
        """Replays of ``key``, oldest first."""
        return tuple(self._books[key].values) if key in self._books else ()

    def usual(self, key: Key) -> float | None:
        """Efficiency while all was well."""
        good = self._books[key].good if key in self._books else ()
        return median(good) if good else None

    def saved(self, key: Key) -> Saved | None:
        return self._books[key].saved if key in self._books else None


class Valuer(Values):
    """What each series is worth. Replays take a quarter of a second, so they take turns.

    Not safe for several threads, but for :meth:`replay`, which takes long and touches nothing.
    """

    def __init__(self, config: ValueConfig | None = None) -> None:
        self._config = config or ValueConfig()
        self._books: dict[Key, _Book] = {}
        super().__init__(self._books)
        self._last: float | None = None

    def due(
        self, series: Sequence[tuple[Key, int, State]], now: float, known: Container[Key] = ()
    ) -> Turn | None:
        """Whose turn it is, of ``series`` with outcomes so far and state; ``None``: nobody's yet.

        ``now`` in seconds. One that was never replayed, or whose state has risen since, comes first
        and waits for nothing; then the one that has waited longest. Who is gone is forgotten, but
        for ``known`` ones. The turn is taken with this call.
        """
        alive = {key for key, _, _ in series}
        for key in [key for key in self._books if key not in alive and key not in known]:
            del self._books[key]
        waiting = []
        for i, (key, outcomes, state) in enumerate(series):
            book = self._books.get(key) or _Book()
            urgent = book.turn < 0.0 or state > book.state
            enough = 1 if state > book.state and book.turn >= 0.0 else self._config.every
            if outcomes - book.replayed >= enough:
                waiting.append((not urgent, book.turn, key.sliced, i))
        if not waiting:
            return None
        calm, _, _, place = min(waiting)
        rested = self._last is None or now - self._last >= self._config.rest
        if calm and not rested:
            return None
        key, outcomes, state = series[place]
        book = self._book(key)
        book.replayed, book.turn, book.state, self._last = outcomes, max(now, 0.0), state, now
        seconds = not key.sliced and (
            book.saved_at is None or now - book.saved_at >= self._config.saved_every
        )
        if seconds:
            book.saved_at = now
        return Turn(key, outcomes, state, seconds)

    def replay(self, turn: Turn, window: Sequence[Outcome]) -> Replay | None:
        """Replay ``window``, that of whose turn it is; touches nothing. ``None``: too few."""
        found = worth(window, self._config.replay)
        if found is None:
            return None
        seconds = saved(window, self._config.replay) if turn.seconds else None
        return Replay(Valued(window[-1].arrival, turn.outcomes, found), seconds)

    def record(self, turn: Turn, found: Replay) -> None:
        """Keep what the replay gave."""
        book = self._book(turn.key)
        book.values.append(found.valued)
        if turn.seconds:
            book.saved = found.saved
        share = found.valued.worth.efficiency.e2el
        if turn.state is State.OK and share == share and len(book.good) < self._config.usual:
            book.good.append(share)

    def known(self, most: int = 100) -> dict[Key, Known]:
        """By series: the newest ``most`` replays of a version, the newest of a slice."""
        return {
            key: Known(
                tuple(book.values)[-1 if key.sliced else -most :], tuple(book.good), book.saved
            )
            for key, book in self._books.items()
            if book.values
        }

    def restore(self, known: Mapping[Key, Known]) -> None:
        """Go on from what was :meth:`known`; every series is replayed anew when its turn comes."""
        for key, one in known.items():
            book = self._book(key)
            book.values.extend(one.values)
            book.good, book.saved = list(one.good), one.saved

    def _book(self, key: Key) -> _Book:
        if key not in self._books:
            self._books[key] = _Book(values=deque(maxlen=self._config.history))
        return self._books[key]

    def values(self) -> Values:
        """All of it as it is now, for another thread to read."""
        return Values(self.known(self._config.history))
