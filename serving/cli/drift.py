"""``shortfirst drift``: what the monitor knows, from the stored outcomes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from drift.outcomes import OutcomeStore
    from drift.replay import Replayed

app = typer.Typer(
    help="State, events and report of the drift monitor, from the stored outcomes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Outcomes = Annotated[
    Path | None,
    typer.Option(help="SQLite file of realised lengths. Default: in the home folder."),
]
Events = Annotated[
    Path | None, typer.Option(help="File of drift events. Default: in the home folder.")
]
Last = Annotated[int, typer.Option(min=1, help="How many of the newest outcomes to weigh again.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def status(outcomes: Outcomes = None, last: Last = 5_000, as_json: Json = False) -> None:
    """State of every served model, and the numbers behind it."""
    from drift.efficiency import efficiency
    from drift.replay import replay
    from serving.cli.console import print_json, print_table

    store = _store(outcomes)
    try:
        found = replay(store, last=last)
    finally:
        store.close()
    rows = []
    for item in found:
        worth = efficiency(item.window)
        rows.append(
            {
                **item.snapshot.as_dict(),
                "efficiency_e2el": worth.e2el if worth else None,
                "efficiency_per_token": worth.per_token if worth else None,
            }
        )
    if as_json:
        print_json(rows)
        return
    print_table(
        _STATUS,
        [_status_row(row) for row in rows],
        title="Drift",
        caption="Statistics of the last "
        f"{max((row['window_outcomes'] for row in rows), default=0):,} outcomes by arrival.",
    )


_STATUS = (
    "served model",
    "ranker",
    "state",
    "outcomes",
    "tau-b",
    "95% interval",
    "reference",
    "efficiency",
    "within p50",
    "within p90",
    "unscored",
    "cut off",
)


def _status_row(row: dict[str, Any]) -> list[object]:
    interval = "-" if math.isnan(row["tau"]) else f"{row['tau_low']:.2f} to {row['tau_high']:.2f}"
    return [
        row["served_model"],
        f"{row['ranker'] or '-'} {row['version']}".strip(),
        row["state"],
        row["total_outcomes"],
        _rounded(row["tau"]),
        interval,
        _rounded(row["reference_tau"]) if row["reference_tau"] is not None else "learning",
        _rounded(row["efficiency_e2el"]),
        _percent(row["coverage_p50"]),
        _percent(row["coverage_p90"]),
        _percent(row["unscored_share"]),
        _percent(row["censored_share"]),
    ]


@app.command()
def events(
    events: Events = None,
    last: Annotated[int, typer.Option(min=1, help="How many of the newest to show.")] = 20,
    alerts: Annotated[bool, typer.Option(help="Only those that alert.")] = False,
    as_json: Json = False,
) -> None:
    """What the monitor of the rank service said, newest last."""
    from datetime import UTC, datetime

    from drift.events import read_events
    from serving.cli.console import note, print_json, print_table
    from serving.paths import Home

    path = events or Home.resolve().events
    found = [event for event in read_events(path) if event.alert or not alerts][-last:]
    if as_json:
        print_json([event.as_dict() for event in found])
        return
    if not found:
        note(f"no {'alerts' if alerts else 'events'} in {path}")
        return
    print_table(
        ("arrival (UTC)", "served model", "ranker", "outcome", "event", "why"),
        [
            (
                datetime.fromtimestamp(event.at, UTC).strftime("%Y-%m-%d %H:%M:%S"),
                event.served_model,
                f"{event.ranker} {event.version}".strip() or "-",
                event.outcome,
                f"{event.previous} -> {event.state}" if event.kind == "state" else event.kind,
                "; ".join(event.reasons),
            )
            for event in found
        ],
    )


@app.command()
def report(
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write. Default: in the home folder.")
    ] = None,
    served_model: Annotated[
        str, typer.Option(help="Whose forecasts. Default: the one reported last.")
    ] = "",
    outcomes: Outcomes = None,
    events: Events = None,
    last: Last = 5_000,
    evidently: Annotated[
        bool, typer.Option(help="Also write evidently's comparison of lengths and scores.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page about the forecasts of a served model."""
    from datetime import UTC, datetime

    from drift.events import read_events
    from drift.replay import replay, report_data
    from drift.report import write
    from serving.cli.console import note, print_json
    from serving.paths import Home

    home = Home.resolve()
    store = _store(outcomes)
    try:
        logged = tuple(read_events(events or home.events))
        item = _choose(replay(store, logged, last=last), served_model)
    finally:
        store.close()
    created = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    written = {"report": str(write(report_data(item, created), out or home.reports / "drift.html"))}
    if evidently:
        from drift.evidently_report import data_drift

        page = data_drift(item.before, item.window)
        where = (out or home.reports / "drift.html").with_suffix(".evidently.html")
        written["evidently"] = str(page.write(where))
        if as_json:
            print_json({**written, "columns": page.as_dict()})
            return
    if as_json:
        print_json(written)
        return
    for name, path in written.items():
        note(f"{name}: {path}")


def _choose(found: list[Replayed], served_model: str) -> Replayed:
    from serving.cli.console import UserError

    names = [item.snapshot.key.served_model for item in found]
    if not found:
        raise UserError("the store holds no outcomes yet")
    if not served_model:
        return found[-1]
    if served_model not in names:
        raise UserError(f"no outcomes of {served_model!r}; there are: {', '.join(sorted(names))}")
    return found[names.index(served_model)]


def _store(path: Path | None) -> OutcomeStore:
    from drift.outcomes import OutcomeStore
    from serving.paths import Home

    return OutcomeStore(path or Home.resolve().outcomes, create=False)


def _rounded(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.2f}"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.0%}"
