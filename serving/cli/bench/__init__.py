"""``shortfirst bench``: measure policies before trusting them. One command, one module."""

from __future__ import annotations

import typer

from serving.cli.bench import (
    burst,
    calibrate,
    fairness,
    frontier,
    memory,
    paper,
    peers,
    router,
    sim,
    soak,
    spec,
    speed,
    traces,
)

app = typer.Typer(
    help="Measure policies before trusting them: simulated on the scheduler that serves, or real.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def bench() -> None:
    """Measure policies before trusting them: simulated on the scheduler that serves, or real."""


app.command("sim")(sim.sim)
app.command("frontier")(frontier.frontier)
app.command("traces")(traces.traces)
app.command("memory")(memory.memory)
app.command("fairness")(fairness.fairness)
app.command("paper")(paper.paper)
app.command("peers")(peers.peers)
app.command("router")(router.router)
app.command("speed")(speed.speed)
app.command("spec")(spec.spec)
app.command("calibrate")(calibrate.calibrate)
app.command("burst")(burst.burst)
app.command("soak")(soak.soak)
