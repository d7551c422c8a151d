"""``shortfirst promote``: choose the version that serves, or take a promotion back."""

from __future__ import annotations

from typing import Annotated

import typer


def promote(
    name: Annotated[str, typer.Argument(help="Registered name.")] = "length-ranker",
    version: Annotated[
        str, typer.Argument(help="Version number; without one, the history is shown.")
    ] = "",
    alias: Annotated[str, typer.Option(help="Alias to move.")] = "champion",
    force: Annotated[bool, typer.Option(help="Promote even when it orders worse.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let an alias stand for a version. Promote an older version to roll back."""
    import getpass
    from dataclasses import asdict
    from datetime import UTC, datetime

    from ranker.registry import Registry
    from serving.cli import console
    from serving.paths import Home
    from training import promote as gate

    home = Home.resolve()
    registry = Registry(home.mlflow_uri, home.artifacts)
    if not version:
        columns = ("at", "alias", "version", "previous", "by", "gate")
        moves = [asdict(move) for move in gate.history(registry.tags(name))]
        console.show(columns, [[m[c] for c in columns] for m in moves], as_json=json, title=name)
        return
    done = gate.promote(
        registry,
        name,
        version,
        by=getpass.getuser(),
        now=datetime.now(UTC),
        alias=alias,
        force=force,
    )
    if json:
        console.print_json(asdict(done))
    else:
        before = f", before version {done.previous}" if done.previous else ""
        console.note(f"models:/{name}@{alias} is version {version}{before} ({done.gate}).")
