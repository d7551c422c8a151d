"""Timings while they come in, row by row, to be read as columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np

from engine.timings import FLOATS, INTS, Timing, Timings


class TimingTable:
    """Appends; :meth:`timings` copies, so that it can go on."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._floats = [array("d") for _ in FLOATS]
        self._ints = [array("q") for _ in INTS]
        self._tenants: dict[str, int] = {}
        self._lanes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add(
        self,
        request_id: str,
        arrival: float,
        first_token: float,
        finished: float,
        prompt_tokens: int,
        output_tokens: int,
        gaps: int,
        longest_gap: float,
        gap_squares: float,
        preemptions: int,
        tenant: str,
        lane: str,
    ) -> None:
        """Fields of :class:`Timing`, unchecked: for callers whose clock cannot go back."""
        self._ids.append(request_id)
        floats, ints = self._floats, self._ints
        floats[0].append(arrival)
        floats[1].append(first_token)
        floats[2].append(finished)
        floats[3].append(longest_gap)
        floats[4].append(gap_squares)
        ints[0].append(prompt_tokens)
        ints[1].append(output_tokens)
        ints[2].append(gaps)
        ints[3].append(preemptions)
        ints[4].append(self._tenants.setdefault(tenant, len(self._tenants)))
        ints[5].append(self._lanes.setdefault(lane, len(self._lanes)))

    def timings(self) -> Timings:
        """What came in so far, in columns of their own."""
        columns: dict[str, Any] = {}
        for name, reals in zip(FLOATS, self._floats, strict=True):
            columns[name] = np.array(reals, dtype=np.float64)
        for name, counts in zip(INTS, self._ints, strict=True):
            columns[name] = np.array(counts, dtype=np.int64)
        return Timings(
            ids=tuple(self._ids),
            **columns,
            tenants=tuple(self._tenants),
            lanes=tuple(self._lanes),
        )


def in_columns(timings: Iterable[Timing]) -> Timings:
    """In columns; returned as it is when it is so already."""
    if isinstance(timings, Timings):
        return timings
    table = TimingTable()
    for t in timings:
        table.add(
            t.request_id, t.arrival, t.first_token, t.finished, t.prompt_tokens, t.output_tokens,
            t.gaps, t.longest_gap, t.gap_squares, t.preemptions, t.tenant, t.lane,
        )  # fmt: skip
    return table.timings()


def merged(parts: Iterable[Timings]) -> Timings:
    """All of them in order of finish."""
    return in_columns(sorted((t for part in parts for t in part), key=lambda t: t.finished))
