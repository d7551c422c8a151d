"""How much of the order is left after a shift, and which delays that owes."""

from __future__ import annotations

from serving.drift_bench.bench import Bench
from serving.drift_bench.traffic import Shift, Usual

#: Share of the reference tau-b that is left: up to where which delays must be reached, and from
#: where on no alarm is owed.
STRONG, WEAK, HARMLESS = 0.3, 0.55, 0.75
#: Median and 95th percentile, scored arrivals.
DELAYS = {"strong": (100.0, 220.0), "weak": (200.0, 450.0)}


def strength(left: float) -> str:
    """Which delays a shift owes: strong, weak, between (none stated), harmless (none owed)."""
    if left <= STRONG:
        return "strong"
    if left <= WEAK:
        return "weak"
    return "between" if left < HARMLESS else "harmless"


def left_of(bench: Bench, shift: Shift, usual: Usual) -> float:
    """Share of the reference's tau-b that the shifted traffic keeps."""
    limit = bench.config.limit
    return shift.pool.served(limit).tau / usual.reference.served(limit).tau
