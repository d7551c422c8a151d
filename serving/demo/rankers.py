"""Step 3: train both bundled rankers, evaluate them beside baselines, make them champions."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from serving.cli import tables
from training import pipeline, smollm2
from training.config import FitConfig
from training.evaluate import FCFS, Row
from training.pipeline import Result
from training.promote import GateError
from training.sharegpt import SERVED_MODEL, ShareGpt

if TYPE_CHECKING:
    from ranker.registry import Registry

#: The rankers the demo and ``up`` serve, by served model.
SERVED = (SERVED_MODEL, smollm2.SERVED_MODEL)


def train(
    sharegpt: ShareGpt,
    registry: Registry,
    now: datetime,
    served_models: Sequence[str] = SERVED,
) -> dict[str, Result]:
    """Train, evaluate and register one ranker per served model; results by served model."""
    results = {}
    for served_model in served_models:
        with tables.stages() as progress:
            results[served_model] = pipeline.run(
                pipeline.job(sharegpt, served_model),
                FitConfig(),
                registry,
                progress,
                by=getpass.getuser(),
                now=now,
                promote_as=None,
            )
    return results


def promote(registry: Registry, result: Result, now: datetime) -> bool:
    """Make the result champion; false when the gate found it worse than what is there."""
    from training.promote import promote as make_champion

    try:
        make_champion(registry, result.name, result.version, by=getpass.getuser(), now=now)
    except GateError:
        return False
    return True


def champion(served_model: str) -> str:
    """Address of the ranker to serve for a model."""
    return f"models:/{pipeline.ranker_name(served_model)}@champion"


def table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of an evaluation, short enough for 80 columns."""
    columns = ["ranker", "tau-b", "95% interval", "pairs in order", "p50 / p90 coverage"]
    shown = []
    for row in rows:
        known = row.ranker != FCFS
        shown.append(
            [
                row.ranker if known else "fcfs (random order)",
                f"{row.tau:.3f}",
                f"{row.low:.3f} to {row.high:.3f}",
                f"{row.accuracy:.1%}",
                f"{row.p50:.0%} / {row.p90:.0%}" if known else "-",
            ]
        )
    return columns, shown


def flat_line(result: Result) -> str:
    """How little the bundled model's own lengths can be foreseen, and what follows."""
    row = result.tables["test"][0]
    return (
        f"{result.name}: tau-b {row.tau:.2f} ({row.low:.2f} to {row.high:.2f}) on {row.rows} "
        f"prompts, two draws of one prompt agree at .52; median forecasts run from "
        f"{result.flatness.low:.0f} to {result.flatness.high:.0f} tokens, "
        f"{result.flatness.share:.0%} of the spread of real lengths, so boost stays nearer to FCFS"
    )
