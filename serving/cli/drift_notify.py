"""``shortfirst drift notify`` and ``assets``: who is told of drift, and with what tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from serving.cli.drift_options import Json, WebhookFile, WebhookUrls, chosen_webhooks


def notify(
    webhook: WebhookUrls = None,
    webhooks: WebhookFile = None,
    test: Annotated[
        bool, typer.Option("--test", help="Send each a test alert, and its end right after.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the webhooks that shortfirst serve would tell, or try them with --test.

    Give the options that shortfirst serve gets, in the same environment. Addresses are never
    printed. Exit status 1: one of them did not take the test.

    For example: --webhook slack=env:SLACK_URL --webhook alertmanager=http://localhost:9093
    """
    import os
    import random
    import time

    from drift.notify.notifier import Notifier
    from serving.cli.console import UserError, print_json, print_table

    found = chosen_webhooks(webhook, webhooks)
    if not found:
        raise UserError("no webhook: give --webhook, or [[webhook]] tables in a TOML file")
    rows: list[dict[str, Any]] = [
        {"name": one.name, "kind": one.kind, "level": one.level} for one in found
    ]
    notifier = Notifier(found, os.environ, time.time, random.Random())
    try:
        if test:
            for row, replies in zip(rows, notifier.test(_test_entry(time.time())), strict=True):
                row["delivered"] = all(reply.delivered for reply in replies)
                row["answer"] = str(next((r for r in replies if not r.delivered), replies[-1]))
    finally:
        notifier.close(0.0)
    if as_json:
        print_json(rows)
    else:
        columns = list(rows[0])
        print_table(columns, [[row[c] for c in columns] for row in rows], title="Webhooks")
    if not all(row.get("delivered", True) for row in rows):
        raise typer.Exit(1)


def _test_entry(now: float) -> Any:
    from drift.entry import Entry

    return Entry(
        at=now,
        kind="state",
        actor="shortfirst drift notify --test",
        served_model="test",
        before="ok",
        after="fcfs",
        cause="test",
        reasons=("this is a test: nothing has drifted",),
        advice="nothing to do",
        message="A test of this webhook.",
    )


def assets(
    folder: Annotated[Path, typer.Argument(help="Where to write them.")] = Path("shortfirst-drift"),
    as_json: Json = False,
) -> None:
    """Write alert rules for Prometheus and a dashboard for Grafana.

    alerts.yml goes under rule_files in prometheus.yml (promtool check rules alerts.yml). Import
    grafana.json in Grafana: Dashboards, New, Import.
    """
    from drift.assets import write
    from serving.cli.console import note, print_json

    written = write(folder)
    if as_json:
        print_json({path.name: str(path) for path in written})
        return
    for path in written:
        note(str(path))
