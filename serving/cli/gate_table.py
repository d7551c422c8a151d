"""The gate's verdict as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from serving.cli import console

if TYPE_CHECKING:
    from training.gate import Verdict


def show(verdict: Verdict) -> None:
    """Print the table of checks, where there were any, and what came of it."""
    from training.gate import COLUMNS

    if verdict.checks:
        left = f"; {verdict.left_out:,} more that one was trained on" if verdict.left_out else ""
        console.print_table(
            COLUMNS,
            [check.cells() for check in verdict.checks],
            title=f"{verdict.name}: version {verdict.version} against version {verdict.champion}, "
            f"which serves, on {verdict.rows:,} {verdict.kind}{left}",
            caption="difference with its 95% interval, the same rows and bursts for both",
        )
    if not verdict.passed:
        console.note(
            f"Refused: version {verdict.version} does not take the place of version "
            f"{verdict.champion}: {verdict.summary}. --force promotes it anyway."
        )
