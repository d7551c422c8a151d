"""``shortfirst drift report``: what stored outcomes say, as pages."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serving.cli.drift_options import Events, Json, Last, Outcomes, open_store

if TYPE_CHECKING:
    from drift.outcomes import OutcomeStore
    from drift.replay import Replayed
    from ranker.types import Outcome

#: Outcomes of a ranker version that its windows are compared with: those that came first.
_REFERENCE = 1_600


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
    workspace: Annotated[
        Path | None,
        typer.Option(
            help="Also report on every window that has no report yet, into this folder; open it by "
            "DO_NOT_TRACK=1 evidently ui --workspace FOLDER. Made for a timer: each call adds "
            "what is new."
        ),
    ] = None,
    window_seconds: Annotated[
        float, typer.Option(help="How long a window of --workspace is, by arrival.")
    ] = 3600.0,
    keep: Annotated[
        int, typer.Option(min=1, help="How many windows of --workspace stay; older ones go.")
    ] = 168,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page about the forecasts of a served model.

    --evidently adds evidently's own page; --workspace keeps a report of every window, with Kendall
    tau as a metric and tests that pass or fail, for evidently's dashboard.
    """
    from datetime import UTC, datetime

    from drift.events import read_events
    from drift.replay import replay, report_data
    from drift.report import write
    from serving.cli.console import note, print_json
    from serving.paths import Home

    home = Home.resolve()
    written: dict[str, Any] = {}
    store = open_store(outcomes)
    try:
        logged = tuple(read_events(events or home.events))
        item = _choose(replay(store, logged, last=last), served_model)
        if workspace is not None:
            model = item.snapshot.key.served_model
            written["workspace"] = _windows(store, model, workspace, window_seconds, keep)
    finally:
        store.close()
    created = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    page = str(write(report_data(item, created), out or home.reports / "drift.html"))
    written = {"report": page, **written}
    if evidently:
        from drift.evidently_report import data_drift

        compared = data_drift(item.before, item.window)
        where = (out or home.reports / "drift.html").with_suffix(".evidently.html")
        written["evidently"] = str(compared.write(where))
        if as_json:
            written["columns"] = compared.as_dict()
    if as_json:
        print_json(written)
        return
    for name, path in written.items():
        note(f"{name}: {path}")


def _windows(
    store: OutcomeStore, served_model: str, workspace: Path, seconds: float, keep: int
) -> dict[str, Any]:
    """Report on the windows of ``served_model``; what was written, JSON-ready."""
    from dataclasses import asdict

    from drift.evidently_report.window import WindowConfig, windows
    from drift.evidently_report.workspace import Workspace

    config = WindowConfig(seconds=seconds)
    # Enough for the windows that stay, in all but the busiest traffic.
    cut = windows(store.by_arrival(served_model, 500_000), config)
    references = {key: _first(store, served_model, *key) for key in _versions(cut)}
    written = Workspace(workspace, keep).write(served_model, cut, references, config)
    return {"folder": str(workspace), **asdict(written)}


def _versions(cut: list[Any]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((window.ranker, window.version) for window in cut))


def _first(
    store: OutcomeStore, served_model: str, ranker: str, version: str
) -> tuple[Outcome, ...]:
    own = (
        o
        for o in store.by_arrival(served_model)
        if o.forecast is not None and (o.forecast.ranker, o.forecast.version) == (ranker, version)
    )
    return tuple(islice(own, _REFERENCE))


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
