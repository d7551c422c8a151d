"""What the training commands share: evaluation rows as table cells, stages as progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from serving.cli import console

if TYPE_CHECKING:
    from training.evaluate import Row
    from training.sources import Data, Progress

COLUMNS = (
    "ranker",
    "rows",
    "censored",
    "tau_b",
    "tau_low",
    "tau_high",
    "pair_accuracy",
    "short_long",
    "tau_of_ceiling",
    "p50_coverage",
    "p90_coverage",
)


def rows(table: Sequence[Row]) -> list[tuple[object, ...]]:
    """Cells in the order of :data:`COLUMNS`."""
    return [
        (
            *(r.ranker, r.rows, r.censored, r.tau, r.low, r.high),
            *(r.accuracy, r.short_long, r.share, r.p50, r.p90),
        )
        for r in table
    ]


def note_leaks(data: Data) -> None:
    """Say how many rows of a source were left out and why, if any."""
    if data.leaks:
        console.note(
            f"{data.name}: {data.leaks:,} rows left out, because a split that is held out from "
            "theirs has the same prompt"
        )
    for reason, count in data.skipped.items():
        console.note(f"{data.name}: {count:,} rows left out: {reason}")


@contextmanager
def stages() -> Iterator[Progress]:
    """Progress of stage after stage, each with its own bar or plain line."""
    with ExitStack() as stack:
        current: list[tuple[str, console.Bar, ExitStack]] = []

        def progress(stage: str, done: float, total: float) -> None:
            if not current or current[0][0] != stage:
                for _, _, last in current:
                    last.close()
                inner = stack.enter_context(ExitStack())
                bar = inner.enter_context(console.progress(stage, total))
                current[:] = [(stage, bar, inner)]
            current[0][1].update(done)

        yield progress
