"""``shortfirst drift status``: where every series stands, most harm first."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from serving.cli.drift_options import Json, Last, Outcomes, open_store, utc


def status(outcomes: Outcomes = None, last: Last = 5_000, as_json: Json = False) -> None:
    """State of every served model and slice of its traffic, and the numbers behind it.

    And, as the rank service wrote them last: who is tried beside the version that serves, and what
    came of retraining.
    """
    from drift.status import standing
    from serving.cli.console import print_json, print_table

    store = open_store(outcomes)
    try:
        rows = standing(store, last=last)
        shadows, attempts = _told(store.path)
    finally:
        store.close()
    if as_json:
        print_json(
            [
                {
                    **row,
                    # Of the version as a whole; slices stand in the challenger's own list.
                    "shadow": None if row["tenant"] is not None else _about(shadows, row),
                    "retraining": None if row["tenant"] is not None else _about(attempts, row),
                }
                for row in rows
            ]
        )
        return
    print_table(
        _COLUMNS,
        [_cells(row) for row in rows],
        title="Drift",
        caption="Statistics of the last "
        f"{max((row['window_outcomes'] for row in rows), default=0):,} outcomes by arrival. "
        "Efficiency: 1 an oracle, 0 FCFS; harm: efficiency lost x share of traffic. Trust: the say "
        "that the rank service leaves to forecasts, 0 order by arrival (serve --act); while the "
        "state is ok that is caution: by what ended last order seems lost.",
    )

    if shadows:
        print_table(
            ("served model", "challenger", "beside", "tau-b", "of the champion", "difference",
             "95% interval", "outcomes", "verdict", "as of (UTC)"),
            [_shadow_cells(row) for row in shadows],
            title="Challengers",
        )  # fmt: skip
    if attempts:
        print_table(
            ("served model", "ranker", "instead of", "challenger", "phase", "since (UTC)", "why"),
            [
                (
                    a["served_model"], a["ranker"], a["version"], a["challenger"] or "-",
                    a["phase"], utc(a["since"]),
                    "; ".join(filter(None, (*a["reasons"], a["gate"]))),
                )
                for a in attempts
            ],
            title="Retraining",
        )  # fmt: skip


def _told(outcomes: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What the rank service wrote beside its outcomes of challengers and of retraining."""
    import json

    from drift.attempts_file import load_attempts, retraining_path
    from drift.shadow import shadow_path

    attempts = [one.as_dict() for one in load_attempts(retraining_path(outcomes)).values()]
    path = shadow_path(outcomes)
    try:
        shadows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    except ValueError as error:
        raise ValueError(f"{path}: holds no comparisons ({error}); remove it") from None
    return shadows, attempts


def _about(told: list[dict[str, Any]], row: dict[str, Any]) -> dict[str, Any] | None:
    return next((one for one in told if one["served_model"] == row["served_model"]), None)


def _shadow_cells(row: dict[str, Any]) -> list[object]:
    interval = "-" if row["low"] is None else f"{row['low']:+.3f} to {row['high']:+.3f}"
    numbers = [
        "-" if row[name] is None else f"{row[name]:.3f}"
        for name in ("challenger_tau", "champion_tau", "difference")
    ]
    who = [row["served_model"], f"{row['ranker']} {row['challenger']}", row["champion"]]
    when = "-" if row["at"] is None else utc(row["at"])
    return [*who, *numbers, interval, row["pairs"], row["verdict"], when]


_COLUMNS = (
    "served model",
    "traffic",
    "ranker",
    "state",
    "trust",
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
        _rounded(row["trust"]),
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
