"""``--retain-prompts`` of the commands that run a rank service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from drift.prompts import RetentionConfig

RetainPrompts = Annotated[
    float,
    typer.Option(
        metavar="DAYS",
        min=0.0,
        help="Keep the text of every ranked prompt this many days, so that shortfirst train "
        "--from-outcomes can learn from live traffic. It lies in prompts.db beside the outcomes, "
        "readable by you alone, at most 500,000 prompts or 2 GiB; shortfirst drift forget deletes "
        "it. 0, the default: no prompt is written anywhere.",
    ),
]


def chosen(days: float, path: Path) -> RetentionConfig | None:
    """How prompts are to be retained, if at all; says so either way when there are some."""
    from serving.cli.console import note

    if not days:
        if path.exists():
            note(
                f"Prompts of earlier runs are still in {path}; shortfirst drift forget deletes them"
            )
        return None
    from drift.prompts import RetentionConfig

    config = RetentionConfig(days)
    note(f"Prompts are retained for {days:g} days in {path}; shortfirst drift forget deletes them")
    return config
