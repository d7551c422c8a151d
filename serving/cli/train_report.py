"""What came of training, for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from serving.cli import console, gate_table, tables
from serving.cli.pace import Pace

if TYPE_CHECKING:
    from training.pipeline import Result


def report(
    results: Sequence[Result], *, as_json: bool, more: Mapping[str, object] | None = None
) -> None:
    """Print them; ``more`` goes into the JSON of each."""
    if as_json:
        shown = [{**_as_dict(result), **(more or {})} for result in results]
        console.print_json(shown[0] if len(shown) == 1 else shown)
        return
    for result in results:
        _show(result)


def _show(result: Result) -> None:
    from training.expect import Miss

    console.print_table(
        tables.COLUMNS,
        tables.rows(result.tables["test"]),
        title=f"{result.name} version {result.version} on "
        f"{len(result.data.split('test')):,} held-out prompts",
    )
    console.note(f"Forecasts: {result.flatness}.")
    console.note(str(_pace(result)))
    if result.misses:
        columns = [f.name for f in fields(Miss)]
        rows = [list(asdict(miss).values()) for miss in result.misses]
        console.print_table(columns, rows, title="Missed what the configuration expects")
        console.note(f"{result.name} version {result.version} is registered, not promoted.")
    if result.verdict is not None:
        gate_table.show(result.verdict)
    if result.promotion is not None:
        alias = result.promotion.alias
        console.note(f"models:/{result.name}@{alias} is version {result.version}.")


def _pace(result: Result) -> Pace:
    return Pace.of(result.ranker, [e.prompt for e in result.data.split("test")])


def _as_dict(result: Result) -> dict[str, Any]:
    pace = _pace(result)
    return {
        "name": result.name,
        "version": result.version,
        "run_id": result.run_id,
        "promoted": result.promotion is not None,
        "verdict": None if result.verdict is None else result.verdict.as_dict(),
        "missed": [asdict(miss) for miss in result.misses],
        "forecast_spread": result.flatness.share,
        "ms_per_prompt": pace.typical,
        "rank_deadline_ms": pace.deadline_ms,
        **{
            split: [dict(zip(tables.COLUMNS, row, strict=True)) for row in tables.rows(table)]
            for split, table in result.tables.items()
        },
    }
