"""What a reporter hands over at once, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drift.opened import Open
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class Delivery:
    """``reporter`` names who reports, empty when it doesn't say. ``sent`` is the Unix second of its
    clock when it sent this. ``mended``: times that had to be put right to be read at all."""

    outcomes: Sequence[Outcome]
    open: Sequence[Open] = ()
    reporter: str = ""
    sent: float | None = None
    mended: int = 0


@dataclass(frozen=True, slots=True)
class Receipt:
    """``stored`` outcomes are on disk, ``duplicates`` were known. ``conflicts``: those of the known
    that were reported with other numbers before; what was first stays."""

    stored: int
    duplicates: int
    conflicts: int
