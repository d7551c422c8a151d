"""Step 3: train both bundled rankers, evaluate them beside baselines, make them champions."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from serving.cli import tables
from serving.demo.kept import order_kept
from training import gate, pipeline, smollm2
from training.config import TrainConfig
from training.evaluate import FCFS, Row
from training.pipeline import Result
from training.sharegpt import SERVED_MODEL, ShareGpt
from training.sources import Data

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
                TrainConfig(),
                registry,
                progress,
                by=getpass.getuser(),
                now=now,
                promote_as=None,
            )
    return results


def promote(registry: Registry, result: Result, now: datetime) -> bool:
    """Make the result champion; false when the gate found it worse than what is there."""
    verdict = gate.judge(registry, result.name, result.version, result.data)
    try:
        gate.promote(registry, verdict, by=getpass.getuser(), now=now)
    except gate.GateError:
        return False
    return True


def champion(served_model: str) -> str:
    """Address of the ranker to serve for a model."""
    return f"models:/{pipeline.ranker_name(served_model)}@champion"


def to_serve(served_models: Sequence[str] = SERVED) -> list[str]:
    """Arguments of ``shortfirst serve`` for the champions of ``served_models``."""
    return [part for model in served_models for part in ("--ranker", champion(model))]


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


def flat_line(results: Mapping[str, Result], sharegpt: ShareGpt) -> str:
    """How little the bundled model's own lengths can be foreseen, and what boost makes of it."""
    own, chat = results[smollm2.SERVED_MODEL], results[SERVED_MODEL]
    row = own.tables["test"][0]
    kept = [_kept(own, smollm2.load(sharegpt)), _kept(chat, sharegpt.data())]
    bound = smollm2.agreement()["test"].tau
    return (
        f"{own.name}: tau-b {row.tau:.2f} ({row.low:.2f} to {row.high:.2f}) on {row.rows} "
        f"answers, where two draws of one prompt agree at {bound:.2f}; its "
        f"forecasts span {own.flatness.share:.0%} of what real lengths span ({chat.name}: "
        f"{chat.flatness.share:.0%}). Boost keeps the order of arrival at tau {kept[0]:.2f} "
        f"({kept[1]:.2f}); forecasts that are all alike keep it at 1"
    )


def _kept(result: Result, data: Data) -> float:
    test = data.split("test")
    forecasts = result.ranker.forecast([e.prompt for e in test])
    return order_kept(forecasts, [e.prompt_tokens for e in test])
