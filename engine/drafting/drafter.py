"""What the executor asks of whoever guesses tokens."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import NamedTuple, Protocol

from engine.sequence import Sequence


class Wanted(NamedTuple):
    """At most ``most`` >= 1 guesses of what follows ``sequence``."""

    sequence: Sequence
    most: int


class Drafter(Protocol):
    """Guesses what comes next. Wrong guesses cost time, never correctness."""

    def propose(self, wanted: Seq[Wanted]) -> list[list[int]]:
        """For each, in order, at most as many tokens as wanted; none where it has no guess.

        Sequences only grow between calls; of what was proposed, any part may have become true.
        """
        ...

    def forget(self, request_id: str) -> None:
        """The request is over; unknown ids are ignored."""
        ...
