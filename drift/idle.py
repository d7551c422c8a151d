"""Which series nobody has sent anything to for a long time, by the clock of whoever looks."""

from __future__ import annotations

from collections.abc import Iterable

from drift.key import Key


class Idle:
    """``after``: seconds without an outcome from which a series is idle. Time counts from the first
    look on: after a restart, or while old outcomes are reported, nobody is idle at once."""

    def __init__(self, after: float) -> None:
        self._after = after
        self._seen: dict[Key, tuple[int, float]] = {}

    def look(self, series: Iterable[tuple[Key, int]], now: float) -> list[Key]:
        """Of ``series``, each with a number that changes when something comes, those that are idle
        at second ``now``."""
        seen: dict[Key, tuple[int, float]] = {}
        idle = []
        for key, changes in series:
            known, since = self._seen.get(key, (changes, now))
            if known != changes or since > now:  # it moved, or the clock was set back
                since = now
            seen[key] = changes, since
            if now - since >= self._after:
                idle.append(key)
        self._seen = seen
        return idle
