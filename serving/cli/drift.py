"""``shortfirst drift``: what the monitor knows, from the stored outcomes."""

from __future__ import annotations

import typer

from serving.cli.drift_act_replay import act_replay
from serving.cli.drift_bench import benchmark
from serving.cli.drift_dashboard import dashboard
from serving.cli.drift_forget import forget
from serving.cli.drift_history import events, history
from serving.cli.drift_loop import loop
from serving.cli.drift_notify import assets, notify
from serving.cli.drift_report import report
from serving.cli.drift_simulate import simulate
from serving.cli.drift_status import status

app = typer.Typer(
    help="Drift monitor: its state, history and reports, who is told, and its tests.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


for command in (
    status, dashboard, history, events, report, notify, assets, forget, simulate, act_replay,
    loop, benchmark,
):  # fmt: skip
    app.command()(command)
