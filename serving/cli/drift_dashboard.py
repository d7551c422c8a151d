"""``shortfirst drift dashboard``: the page of ``shortfirst serve``, without a rank service."""

from __future__ import annotations

from typing import Annotated

import typer

from serving.cli.drift_options import Last, Outcomes, open_store
from serving.cli.rank_flags import AllowHosts


def dashboard(
    demo: Annotated[
        bool, typer.Option("--demo", help="Made-up traffic whose order decays, as it happens.")
    ] = False,
    outcomes: Outcomes = None,
    last: Last = 5_000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 9465,
    allow_host: AllowHosts = None,
) -> None:
    """Serve the drift dashboard over stored outcomes, or over a demonstration.

    \b
    A running shortfirst serve has it live at its metrics port.
    Examples:
      shortfirst drift dashboard --demo
      shortfirst drift dashboard --outcomes outcomes.db
    """
    import asyncio
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack
    from typing import Any

    from serving.cli.console import note
    from serving.dashboard.demo import DemoConfig
    from serving.dashboard.document import Reading
    from serving.dashboard.run import Demo, serve_dashboard, stored_board
    from serving.drain import StopSignal
    from serving.paths import Home

    def ready(address: str) -> None:
        typer.echo(address)
        note("Ctrl-C stops it.")

    async def run(read: Callable[[], Mapping[str, Any]]) -> None:
        stop = StopSignal()
        stop.install()
        await serve_dashboard(read, host, port, stop, ready, allow_host or ())

    with ExitStack() as undo:
        if demo:
            read = undo.enter_context(Demo(DemoConfig())).read
        else:
            store = open_store(outcomes)
            undo.callback(store.close)
            note("Weighing and replaying what is stored ...")
            home = Home.resolve()
            # The history in the home folder is that of the outcomes there.
            read = Reading(stored_board(store, last), None if outcomes else home.history)
        asyncio.run(run(read))
