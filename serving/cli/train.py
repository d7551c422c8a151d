"""``shortfirst train``: data in, a registered ranker out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def train(
    served_model: Annotated[
        str,
        typer.Option(
            help="Whose answers: sharegpt or smollm2-135m-instruct, which are bundled, or the "
            "model in --data."
        ),
    ] = "sharegpt",
    data: Annotated[
        Path | None,
        typer.Option(
            help="Parquet, JSONL or CSV with columns prompt, output_tokens and optionally "
            "finish_reason, model, id, split."
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="Registered name; by default from the model.")] = "",
    config: Annotated[Path | None, typer.Option(help="TOML of training settings.")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="tokenizer.json that counts the bundled data's tokens.")
    ] = None,
    promote: Annotated[
        bool, typer.Option(help="Let the alias champion stand for the new version.")
    ] = True,
    force: Annotated[bool, typer.Option(help="Promote even when it orders worse.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train a ranker on prompts and realised lengths, evaluate it, register it, promote it."""
    import getpass
    from datetime import UTC, datetime

    from ranker.registry import Registry
    from serving.cli import console, tables
    from serving.paths import Home
    from training import pipeline
    from training.bundled import corpus
    from training.promote import CHAMPION
    from training.sources import read_table

    home = Home.resolve()
    settings = tables.fit_config(config)
    with tables.stages() as progress:
        if data is None:
            job = pipeline.job(corpus(home.cache, tokenizer, progress), served_model)
        else:
            rows = read_table(data, None if served_model == "sharegpt" else served_model)
            tables.note_leaks(rows)
            model = rows.examples[0].model
            job = pipeline.Job(rows, model, pipeline.ranker_name(model))
        if name:
            job = pipeline.Job(job.data, job.served_model, name, job.auxiliary)
        result = pipeline.run(
            job,
            settings,
            Registry(home.mlflow_uri, home.artifacts),
            progress,
            by=getpass.getuser(),
            now=datetime.now(UTC),
            promote_as=CHAMPION if promote else None,
            force=force,
        )
    rows_of = {split: tables.rows(table) for split, table in result.tables.items()}
    if json:
        console.print_json(
            {
                "name": result.name,
                "version": result.version,
                "run_id": result.run_id,
                "promoted": result.promotion is not None,
                "forecast_spread": result.flatness.share,
                **{
                    split: [dict(zip(tables.COLUMNS, row, strict=True)) for row in table]
                    for split, table in rows_of.items()
                },
            }
        )
        return
    console.print_table(
        tables.COLUMNS,
        rows_of["test"],
        title=f"{result.name} version {result.version} on {len(job.data.split('test')):,} "
        f"held-out prompts",
    )
    console.note(f"Forecasts: {result.flatness}.")
    if result.promotion is not None:
        console.note(f"models:/{result.name}@{result.promotion.alias} is version {result.version}.")
