"""Challenger minus champion."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """What either reached, the difference, and its 95% interval with both on the same rows."""

    champion: float
    challenger: float
    value: float
    low: float
    high: float
