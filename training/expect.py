"""Metrics that a configuration promises, held against those that a run reached.

A configuration with ``expected_metrics`` is a regression test (the idea is allRank's)::

    [expected_metrics]
    "test.tau" = { at_least = 0.38 }
    "test.p90_coverage" = { at_least = 0.87, at_most = 0.93 }
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SIDES = ("at_least", "at_most")


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a metric has to lie, both ends included. Raises ``ValueError`` when nothing does."""

    at_least: float = -math.inf
    at_most: float = math.inf

    def __post_init__(self) -> None:
        if not self.at_least <= self.at_most:
            raise ValueError(f"at_least {self.at_least} is above at_most {self.at_most}")


@dataclass(frozen=True, slots=True)
class Miss:
    """A metric outside its bound, by how much; NaN for one that was not measured."""

    metric: str
    value: float
    at_least: float
    at_most: float
    by: float


def bounds(values: Mapping[str, Any]) -> dict[str, Bound]:
    """From a table of a configuration. Raises ``ValueError`` naming the metric."""
    found = {}
    for metric, given in values.items():
        where = f"expected_metrics.{metric!r}"
        if not isinstance(given, Mapping) or not given or set(given) - set(_SIDES):
            raise ValueError(f"{where} must be a table with at_least, at_most or both")
        for side, value in given.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or math.isnan(value):
                raise ValueError(f"{where}: {side} must be a number, got {value!r}")
        try:
            found[metric] = Bound(**{side: float(value) for side, value in given.items()})
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    return found


def missed(expected: Mapping[str, Bound], metrics: Mapping[str, float]) -> tuple[Miss, ...]:
    """Those of ``expected`` that ``metrics`` do not meet, in order. One that is not there, or is
    NaN, is missed."""
    found = []
    for metric, bound in expected.items():
        value = metrics.get(metric, math.nan)
        by = max(bound.at_least - value, value - bound.at_most)
        if not bound.at_least <= value <= bound.at_most:
            found.append(Miss(metric, value, bound.at_least, bound.at_most, by))
    return tuple(found)
