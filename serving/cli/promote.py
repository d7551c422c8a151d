"""``shortfirst promote``: choose the version that serves, past a gate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli import training_data
from serving.cli.optional_value import OptionalValues
from serving.cli.registry import TrackingUri, open_registry

if TYPE_CHECKING:
    from ranker.registry import Registry
    from training.gate import Verdict
    from training.sources import Data

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(cls=OptionalValues)
def promote(
    name: Annotated[str, typer.Argument(help="Registered name.")] = "length-ranker",
    version: Annotated[
        str, typer.Argument(help="Version number; without one, the history is shown.")
    ] = "",
    alias: Annotated[str, typer.Option(help="Alias to move.")] = "champion",
    outcomes: Annotated[
        str | None,
        typer.Option(
            metavar="[STORE]",
            help="Compare on recent traffic instead: the realised lengths in this store (by "
            "default the rank service's own) that arrived after the version was trained, with "
            "their retained prompts.",
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(help="Prompts of --outcomes. Default: prompts.db beside the store."),
    ] = None,
    tokenizer: training_data.Tokenizer = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compare, and move nothing.")] = False,
    force: Annotated[bool, typer.Option(help="Promote even when the gate is against it.")] = False,
    tracking_uri: TrackingUri = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let an alias stand for a version, if it orders better than the one that serves.

    \b
    Examples:
      shortfirst promote length-ranker               who served when, and why
      shortfirst promote length-ranker 3             compare version 3, and let it serve
      shortfirst promote length-ranker 3 --dry-run   compare only
      shortfirst promote length-ranker 3 --outcomes  compare on recent traffic

    Both are asked about the validation rows of the data that the version was trained with: their
    tau-b and what it is worth to a queue, each slice, and calibration. With --outcomes they are
    asked about the same recent requests, none of which either was trained on, and tenants and lanes
    are slices too. Exit status 1: refused, with a table of reasons. shortfirst rollback goes back.
    """
    import getpass
    from dataclasses import asdict
    from datetime import UTC, datetime

    from serving.cli import console, gate_table
    from training import gate

    registry = open_registry(tracking_uri)
    if not version:
        _history(registry, name, as_json=json)
        return
    gate.check_move(registry, name, version, alias)
    if outcomes is not None:
        verdict = _on_outcomes(registry, name, version, alias, outcomes, prompts)
    else:
        if prompts is not None:
            raise ValueError("--prompts: only about --outcomes; give that too")
        rows = None
        if registry.resolve(name, alias) not in (None, version):
            rows = _data(registry, name, version, tokenizer, force)
        verdict = gate.judge(registry, name, version, rows, alias=alias)
    moved = None
    if not dry_run:
        moved = gate.promote_if_passed(
            registry, verdict, by=getpass.getuser(), now=datetime.now(UTC), force=force
        )
    if json:
        found = {"promoted": moved is not None, "verdict": verdict.as_dict()}
        console.print_json({**({} if moved is None else asdict(moved)), **found})
    else:
        gate_table.show(verdict)
        if moved is not None:
            before = f", before version {moved.previous}" if moved.previous else ""
            console.note(f"models:/{name}@{alias} is version {version}{before} ({moved.gate}).")
    if not verdict.passed and moved is None:
        raise typer.Exit(1)


def _on_outcomes(
    registry: Registry, name: str, version: str, alias: str, store: str, prompts: Path | None
) -> Verdict:
    from serving.cli.from_outcomes import stores
    from training import gate
    from training.sources.recent import read_recent

    served_model = registry.run_tags(name, version).get("served_model", "")
    recent = read_recent(*stores(store, prompts), served_model)
    return gate.judge_recent(registry, name, version, recent, alias=alias)


def _data(
    registry: Registry, name: str, version: str, tokenizer: Path | None, force: bool
) -> Data | None:
    """What the version was trained with; ``None`` when that cannot be had and need not be."""
    from serving.cli import console, tables
    from training.sources.lineage import Lineage

    tags = registry.run_tags(name, version)
    if Lineage.of(tags) is not None and not force:
        raise ValueError(
            f"{name} version {version} was trained on outcomes, which have gone on since: compare "
            f"on recent ones with --outcomes"
        )
    wanted = training_data.Wanted.of_run(tags, tokenizer)
    try:
        with tables.stages() as progress:
            return wanted.job(name, progress).data
    except (ValueError, OSError) as error:
        if not force:
            raise
        console.note(f"Not compared: {error}")
        return None


def _history(registry: Registry, name: str, *, as_json: bool) -> None:
    from dataclasses import asdict

    from serving.cli import console
    from training.gate import history

    columns = ("number", "at", "alias", "kind", "version", "previous", "by", "gate")
    found = history(registry.tags(name))
    moves = [asdict(move) for move in found.moves]
    console.show(columns, [[m[c] for c in columns] for m in moves], as_json=as_json, title=name)
    if found.fault:
        raise console.UserError(f"{name}: {found.fault}", status=1)
