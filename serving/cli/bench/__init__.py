"""``shortfirst bench``: measure policies before trusting them. One command, one module."""

from __future__ import annotations

import typer

from serving.cli.bench import burst, sim

app = typer.Typer(
    help="Compare policies.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def bench() -> None:
    """Compare policies."""


app.command("sim")(sim.sim)
app.command("burst")(burst.burst)
