"""``shortfirst drift status``: where every series stands, most harm first."""

from __future__ import annotations

import math
from typing import Any

from serving.cli.drift_options import Json, Last, Outcomes, open_store


def status(outcomes: Outcomes = None, last: Last = 5_000, as_json: Json = False) -> None:
    """State of every served model and slice of its traffic, and the numbers behind it."""
    from drift.standing import standing
    from serving.cli.console import print_json, print_table

    store = open_store(outcomes)
    try:
        rows = standing(store, last=last)
    finally:
        store.close()
    if as_json:
        print_json(rows)
        return
    print_table(
        _COLUMNS,
        [_cells(row) for row in rows],
        title="Drift",
        caption="Statistics of the last "
        f"{max((row['window_outcomes'] for row in rows), default=0):,} outcomes by arrival. "
        "Efficiency: 1 an oracle, 0 FCFS; harm: efficiency lost x share of traffic.",
    )


_COLUMNS = (
    "served model",
    "traffic",
    "ranker",
    "state",
    "outcomes",
    "tau-b",
    "95% interval",
    "reference",
    "efficiency",
    "usual",
    "saved",
    "within p50",
    "within p90",
    "unscored",
    "cut off",
    "harm",
)


def _cells(row: dict[str, Any]) -> list[object]:
    interval = "-" if math.isnan(row["tau"]) else f"{row['tau_low']:.2f} to {row['tau_high']:.2f}"
    traffic = "" if row["tenant"] is None else f" ({row['traffic']:.0%})"
    saved = row["saved_seconds"]
    return [
        row["served_model"],
        row["slice"] + traffic,
        f"{row['ranker'] or '-'} {row['version']}".strip(),
        row["state"],
        row["total_outcomes"],
        _rounded(row["tau"]),
        interval,
        _rounded(row["reference_tau"]) if row["reference_tau"] is not None else "learning",
        _rounded(row["efficiency_e2el"]),
        _rounded(row["usual_efficiency"]),
        "-" if saved is None else f"{saved:.1f} s",
        _percent(row["coverage_p50"]),
        _percent(row["coverage_p90"]),
        _percent(row["unscored_share"]),
        _percent(row["censored_share"]),
        _rounded(row["harm"]),
    ]


def _rounded(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.2f}"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.0%}"
