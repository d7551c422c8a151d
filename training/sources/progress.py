"""Who is told how far slow work has come."""

from __future__ import annotations

from collections.abc import Callable

#: Told about slow work: what is being done, how much of it is done, out of how much.
Progress = Callable[[str, float, float], None]


def silent(stage: str, done: float, total: float) -> None:
    """Progress that nobody watches."""
