"""Rows of the table: what seeds say together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from serving.drift_bench.acting.parts import PARTS, Ratios
from serving.drift_bench.acting.study import Row, Study

#: What acting is to keep p99 E2EL within, of FCFS's.
PROMISE = 1.10


@dataclass(frozen=True, slots=True)
class Spread:
    """Over seeds; NaN where no seed has a value, infinite where it never happened."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        known = np.array([v for v in values if v == v], np.float64)
        if not len(known):
            return cls(np.nan, np.nan, np.nan)
        middle = float(np.quantile(known, 0.5, method="inverted_cdf"))
        return cls(middle, float(known.min()), float(known.max()))


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the replays; ``within``: seeds, of those that have it, whose p99 is within
    :data:`PROMISE`."""

    mean: Spread
    p99: Spread
    longest: Spread
    within: int
    seeds: int

    @classmethod
    def of(cls, found: Sequence[Ratios]) -> Part:
        known = [ratios for ratios in found if ratios.requests]
        return cls(
            Spread.of([ratios.mean for ratios in known]),
            Spread.of([ratios.p99 for ratios in known]),
            Spread.of([ratios.longest for ratios in known]),
            sum(ratios.p99 <= PROMISE for ratios in known),
            len(known),
        )


@dataclass(frozen=True, slots=True)
class Line:
    """One policy, with the monitor acting or without."""

    policy: str
    acting: bool
    parts: dict[str, Part]


@dataclass(frozen=True, slots=True)
class Delays:
    """Arrivals until trust was gone after the change, and back after usual traffic was; ``early``:
    seeds in which it was gone before the change."""

    policy: str
    found: Spread
    returned: Spread
    early: int


def lines(study: Study) -> list[Line]:
    """Two for each policy, the one without a monitor first."""
    rows = study.rows
    return [
        Line(policy, acting, _parts([r for r in rows if r.policy == policy], side))
        for policy in study.config.policies
        for acting, side in ((False, _plain), (True, _acting))
    ]


def delays(study: Study) -> list[Delays]:
    """One for each policy."""
    found = []
    for policy in study.config.policies:
        marks = [row.marks for row in study.rows if row.policy == policy]
        found.append(
            Delays(
                policy,
                Spread.of([m.found for m in marks]),
                Spread.of([m.returned for m in marks]),
                sum(m.early for m in marks),
            )
        )
    return found


def _plain(row: Row) -> dict[str, Ratios]:
    return row.plain


def _acting(row: Row) -> dict[str, Ratios]:
    return row.acting


def _parts(rows: Sequence[Row], side: Callable[[Row], dict[str, Ratios]]) -> dict[str, Part]:
    return {name: Part.of([side(row)[name] for row in rows]) for name in PARTS}
