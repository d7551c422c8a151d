"""Where one series stands, as a value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from drift.cohorts import Cohort
from drift.key import Key
from drift.reference import Reference
from drift.states import State


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where one series stands. ``held``, ``late``, ``open``, ``bounds`` and ``settled`` are those
    of its served model (see ``drift.arrival``).

    ``current`` is false for a ranker version that its served model no longer uses. ``traffic`` is
    the share of its served model's outcomes of late that are of its lane and tenant.
    """

    key: Key
    state: State
    outcomes: int
    cohort: Cohort
    reference: Reference | None
    chart: float | None
    held: int
    late: int
    current: bool
    open: int = 0
    bounds: int = 0
    settled: int = 0
    traffic: float = 1.0

    def as_dict(self) -> dict[str, Any]:
        """Flat and JSON-ready but for NaN, which means unknown."""
        cohort = asdict(self.cohort)
        tau, concordance = cohort.pop("tau"), cohort.pop("concordance")
        reference = self.reference
        return {
            **asdict(self.key),
            "slice": self.key.label,
            "state": str(self.state),
            "advice": self.state.advice,
            "total_outcomes": self.outcomes,
            "traffic": self.traffic,
            "window_outcomes": cohort.pop("outcomes"),
            "window_scored": cohort.pop("scored"),
            "tau": tau["value"],
            "tau_low": tau["low"],
            "tau_high": tau["high"],
            "concordance": concordance["value"],
            "concordance_low": concordance["low"],
            "concordance_high": concordance["high"],
            **cohort,
            "reference_tau": reference.tau.value if reference else None,
            "reference_outcomes": reference.outcomes if reference else 0,
            "chart": self.chart,
            "chart_warn": reference.warn_limit if reference else None,
            "chart_degraded": reference.degraded_limit if reference else None,
            "held": self.held,
            "late": self.late,
            "open": self.open,
            "bounds": self.bounds,
            "settled": self.settled,
            "current": self.current,
        }
