"""``shortfirst rollback``: the version before serves again."""

from __future__ import annotations

from typing import Annotated

import typer

from serving.cli.registry import TrackingUri, open_registry


def rollback(
    name: Annotated[str, typer.Argument(help="Registered name.")] = "length-ranker",
    to: Annotated[str, typer.Option(help="Version to go back to. Default: the one before.")] = "",
    alias: Annotated[str, typer.Option(help="Alias to move.")] = "champion",
    tracking_uri: TrackingUri = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let the version before serve again, at once and without the gate.

    \b
    Examples:
      shortfirst rollback                            one back
      shortfirst rollback length-ranker --to 3       to a version that is known to be good

    Again, and it goes one further back. Running rank services follow within seconds; shortfirst
    promote NAME shows who moved what.
    """
    import getpass
    from dataclasses import asdict
    from datetime import UTC, datetime

    from serving.cli import console
    from training import gate

    moved = gate.rollback(
        open_registry(tracking_uri),
        name,
        by=getpass.getuser(),
        now=datetime.now(UTC),
        alias=alias,
        to=to,
    )
    if json:
        console.print_json(asdict(moved))
    else:
        console.note(f"models:/{name}@{alias} is version {moved.version} again, after "
                     f"version {moved.previous}.")  # fmt: skip
