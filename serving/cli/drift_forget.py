"""``shortfirst drift forget``: delete prompts that were retained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from serving.cli.drift_options import Json


def forget(
    older_than: Annotated[
        float | None, typer.Option(min=0.0, metavar="DAYS", help="Only those older than this.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only those of this tenant.")] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(help="Store of retained prompts. Default: prompts.db in the home folder."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Delete the prompts that shortfirst serve --retain-prompts kept; without options, all.

    They are overwritten in the file, not only marked as free; a running service may go on, and
    keeps what comes after. Realised lengths stay: they hold no text.

    \b
    Examples:
      shortfirst drift forget
      shortfirst drift forget --older-than 7
      shortfirst drift forget --tenant acme
    """
    import time

    from drift import prompts as retained
    from serving.cli.console import note, print_json
    from serving.paths import Home, prompts_beside

    path = prompts or prompts_beside(Home.resolve().outcomes)
    before = None if older_than is None else time.time() - older_than * 86_400.0
    deleted = retained.forget(path, before=before, tenant=tenant)
    if as_json:
        print_json({"prompts": str(path), "deleted": deleted})
    else:
        note(f"{path}: {deleted:,} prompts deleted")
