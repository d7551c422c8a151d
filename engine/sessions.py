"""Conversations: each turn's prompt repeats all that was said before, and the cache may know it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.core.request import Request
from engine.prefixes import chain
from engine.tables import read_rows, whole_number
from engine.workload import Floats, Ints, Lengths
from ranker.types import Forecast

COLUMNS = ("session", "turn", "context_tokens", "output_tokens")


@dataclass(frozen=True, slots=True, eq=False)
class Sessions:
    """Turns in order, session by session: ``session`` ascends from 0, ``lengths`` are of each turn
    (the prompt is the whole context). A turn's context covers the one before and its answer.

    Raises ``ValueError`` when that does not hold.
    """

    session: Ints
    lengths: Lengths

    def __post_init__(self) -> None:
        if len(self.session) != len(self.lengths):
            raise ValueError("session must have one entry per turn")
        step = np.diff(self.session)
        if self.session[0] != 0 or not np.isin(step, (0, 1)).all():
            raise ValueError("session must ascend from 0 by 0 or 1")
        total = self.lengths.prompt_tokens + self.lengths.output_tokens
        if (self.lengths.prompt_tokens[1:] < total[:-1])[step == 0].any():
            raise ValueError("a turn's context must cover the turn before it and its answer")

    def __len__(self) -> int:
        """Turns in all."""
        return len(self.session)

    @property
    def count(self) -> int:
        """Sessions."""
        return int(self.session[-1]) + 1

    def fitting(self, capacity: int) -> Sessions:
        """Sessions up to the turn that would exceed ``capacity`` tokens, prompt and answer.

        Raises ``ValueError`` when none has a turn that fits.
        """
        # Contexts only grow within a session, so what is cut is its end.
        keep = self.lengths.prompt_tokens + self.lengths.output_tokens <= capacity
        return self._only(np.flatnonzero(keep), f"no turn fits {capacity} tokens")

    def draw(self, count: int, rng: np.random.Generator) -> Sessions:
        """``count`` sessions with all their turns, with replacement."""
        starts = np.searchsorted(self.session, np.arange(self.count + 1))
        chosen = rng.integers(0, self.count, count)
        rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in chosen])
        sizes = starts[chosen + 1] - starts[chosen]
        return Sessions(np.repeat(np.arange(count), sizes), self.lengths.take(rows))

    def arrivals(
        self, starts: Floats, *, think: float, pace: float, rng: np.random.Generator
    ) -> Floats:
        """When each turn comes, row by row, if session i begins at ``starts[i]``.

        The next turn follows after the answer, taken to come at ``pace`` seconds a token, and an
        exponential time of ``think`` seconds on average. Fixed beforehand, so that policies are
        compared on the same arrivals: where the engine falls behind, a turn may come before the
        answer that it repeats is whole, and finds what is there of it.

        Raises ``ValueError`` unless there is a start per session, and both numbers are >= 0.
        """
        if len(starts) != self.count:
            raise ValueError(f"starts must be {self.count}, one per session, got {len(starts)}")
        if not think >= 0.0 or not pace >= 0.0:
            raise ValueError(f"think and pace must be >= 0 seconds, got {think} and {pace}")
        waits = self.lengths.output_tokens * pace + rng.exponential(1.0, len(self)) * think
        passed = np.concatenate([[0.0], np.cumsum(waits)[:-1]])
        firsts = np.searchsorted(self.session, np.arange(self.count))
        return np.asarray(starts[self.session] + passed - passed[firsts][self.session])

    def requests(
        self,
        arrivals: Floats,
        forecasts: Sequence[Forecast] | None = None,
        *,
        block_size: int = 16,
        shared_tokens: int = 0,
    ) -> list[Request]:
        """One request per turn, in order of arrival; ids are ``session-turn``.

        ``block_hashes`` name the blocks of the whole conversation up to the turn's last token, for
        an engine with blocks of ``block_size``. All sessions begin with the same ``shared_tokens``
        tokens of their context: a system prompt.
        """
        columns = (arrivals, forecasts)
        if any(column is not None and len(column) != len(self) for column in columns):
            raise ValueError("arrivals and forecasts must have one entry per turn")
        system = chain(0, shared_tokens // block_size)
        made: list[Request] = []
        turn = 0
        for row in range(len(self)):
            number = int(self.session[row])
            turn = turn + 1 if row and number == self.session[row - 1] else 0
            prompt = int(self.lengths.prompt_tokens[row])
            output = int(self.lengths.output_tokens[row])
            own: Sequence[int] = chain(number + 1, (prompt + output) // block_size)
            if shared := min(len(system), prompt // block_size):
                own = (*system[:shared], *own[shared:])
            made.append(
                Request(
                    id=f"{number}-{turn}",
                    arrival=float(arrivals[row]),
                    prompt_tokens=prompt,
                    forecast=None if forecasts is None else forecasts[row],
                    true_tokens=output,
                    block_hashes=own,
                )
            )
        return sorted(made, key=lambda request: request.arrival)

    def _only(self, rows: Ints, otherwise: str) -> Sessions:
        if not len(rows):
            raise ValueError(otherwise)
        _, numbers = np.unique(self.session[rows], return_inverse=True)
        return Sessions(numbers.astype(np.int64), self.lengths.take(rows))


def read_sessions(path: Path) -> Sessions:
    """Read turns from .parquet, .csv or .jsonl, by the suffix: ``session``, ``turn`` (ascending),
    ``context_tokens`` (all before the answer, this turn's message included), ``output_tokens``.

    Turns without context or answer are left out; what comes after them stays.

    Raises ``ValueError`` on another suffix, a missing column, a value that is no whole number,
    contexts that do not grow by what was said, or no turn; ``OSError`` when it cannot be read.
    """
    rows: list[tuple[str, int, int, int]] = []
    for number, row in enumerate(read_rows(path, COLUMNS), start=1):
        where = f"{path.name} row {number}"
        if row.get("session") is None:
            raise ValueError(f"{where} lacks session")
        turn, context, output = (whole_number(row, column, where) for column in COLUMNS[1:])
        if min(context, output) >= 1:
            rows.append((str(row["session"]), turn, context, output))
    if not rows:
        raise ValueError(f"{path.name} holds no turn with context_tokens and output_tokens >= 1")
    names = {name: number for number, name in enumerate(dict.fromkeys(row[0] for row in rows))}
    rows.sort(key=lambda row: (names[row[0]], row[1]))
    table = np.array([(names[name], *rest) for name, *rest in rows], dtype=np.int64)
    try:
        return Sessions(table[:, 0].copy(), Lengths(table[:, 2].copy(), table[:, 3].copy()))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
