"""``shortfirst train``: data in, a registered ranker out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serving.cli import training_data
from serving.cli.registry import TrackingUri, open_registry

if TYPE_CHECKING:
    from pathlib import Path

    from ranker.registry import Registry
    from training.configs import Configuration
    from training.pipeline import Result


def train(
    config: Annotated[
        str,
        typer.Option(
            help="A shipped configuration (lexical, encoder, blend, smollm2) or a TOML file. It "
            "may name data and metrics to reach; a run that misses one is registered, not promoted."
        ),
    ] = "",
    served_model: Annotated[
        list[str] | None,
        typer.Option(
            help="Whose answers: sharegpt or smollm2-135m-instruct, which are bundled, or a model "
            "in --data. Given several times, each gets a ranker of its own."
        ),
    ] = None,
    pooled: Annotated[
        bool,
        typer.Option(
            "--pooled",
            help="One ranker for all models in --data, which also answers for models unseen.",
        ),
    ] = False,
    data: training_data.Data = "",
    prompts: training_data.Prompts = None,
    column: training_data.Column = None,
    limit: training_data.Limit = None,
    most: training_data.Most = None,
    name: Annotated[str, typer.Option(help="Registered name; by default from the model.")] = "",
    tokenizer: training_data.Tokenizer = None,
    promote: Annotated[
        bool, typer.Option(help="Let the alias champion stand for the new version.")
    ] = True,
    force: Annotated[bool, typer.Option(help="Promote even when the gate is against it.")] = False,
    restart: Annotated[
        bool,
        typer.Option(
            help="Begin again where an interrupted run of this configuration left a checkpoint; "
            "without it, that run goes on, to the same result."
        ),
    ] = False,
    tracking_uri: TrackingUri = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train a ranker on prompts and realised lengths, evaluate it, register it, promote it.

    \b
    Examples:
      shortfirst train                               the bundled chat, about a minute
      shortfirst train --config lexical              the same, and fail when it gets worse
      shortfirst train --config blend                with a fine-tuned encoder, 20 minutes
      shortfirst train --data log.parquet --served-model llama-3-8b
      shortfirst train --data log.parquet --pooled
      shortfirst train --tracking-uri http://mlflow.example:5000

    Exit status 1: metrics missed what the configuration expects, or the gate refused. The version
    is registered then, but does not serve. Processes that torchrun --nproc-per-node 2 -m
    serving.cli train starts share the training of an encoder; the first does all the rest.
    """
    from dataclasses import replace

    from ranker.length_ranker import POOLED
    from serving.cli import console
    from training import configs

    settings = configs.read(config)
    own = [settings.served_model] if settings.served_model and not data else [""]
    if pooled and (served_model or not (data or settings.data)):
        raise ValueError("--pooled: takes all models of --data; give that, and no --served-model")
    models = [POOLED] if pooled else served_model or own
    if name and len(models) > 1:
        raise ValueError("--name: two rankers cannot share one; leave it away")
    # What a configuration expects holds for the data that it names, not for any other.
    other = data not in ("", settings.data) or models != own
    if other and (settings.data or settings.served_model) and settings.expected:
        console.note(f"{settings.name}: expects its metrics of other data; they are not checked")
        settings = replace(settings, expected={})
    columns = training_data.named_columns(column)
    wanted = [
        training_data.Wanted(data or settings.data, model, prompts, tokenizer, columns, limit, most)
        for model in models
    ]
    if _is_helper():
        for each in wanted:
            _help(each, name, settings)
        return
    results = [
        _train(
            each,
            name,
            settings,
            open_registry(tracking_uri),  # a wrong address: said before the minutes of training
            promote,
            force,
            restart,
        )
        for each in wanted
    ]
    _report(results, as_json=json)
    if any(r.misses or (r.verdict is not None and r.promotion is None) for r in results):
        raise typer.Exit(1)


def _is_helper() -> bool:
    """Whether accelerate or torchrun started this process and another one is the first."""
    return int(os.environ.get("RANK", "0")) > 0


def _help(wanted: training_data.Wanted, name: str, settings: Configuration) -> None:
    from training.sources import silent
    from training.tiers import lend_a_hand

    job = wanted.job(name, silent)
    lend_a_hand(
        job.data.examples,
        settings.train,
        auxiliary=job.helpers,
        workdir=_workdir(job.name, settings),
    )


def _workdir(name: str, settings: Configuration) -> Path:
    from serving.paths import Home

    return Home.resolve().cache / "training" / f"{name}-{settings.name}"


def _train(
    wanted: training_data.Wanted,
    name: str,
    settings: Configuration,
    registry: Registry,
    promote: bool,
    force: bool,
    restart: bool,
) -> Result:
    import getpass
    import shutil
    from datetime import UTC, datetime

    from serving.cli import console, tables
    from training import pipeline
    from training.encoder.watch import Interrupted
    from training.gate import CHAMPION

    with tables.stages() as progress:
        job = wanted.job(name, progress)
        workdir = _workdir(job.name, settings)
        if restart:
            shutil.rmtree(workdir, ignore_errors=True)
        try:
            result = pipeline.run(
                job,
                settings.train,
                registry,
                progress,
                by=getpass.getuser(),
                now=datetime.now(UTC),
                promote_as=CHAMPION if promote else None,
                force=force,
                expected=settings.expected,
                tags={"config": settings.name, **wanted.tags()},
                workdir=workdir,
            )
        except Interrupted as stopped:
            raise console.UserError(str(stopped), status=130) from None
    shutil.rmtree(workdir, ignore_errors=True)  # kept until the version is registered
    return result


def _report(results: list[Result], *, as_json: bool) -> None:
    from dataclasses import asdict, fields

    from serving.cli import console, gate_table, tables
    from training.expect import Miss

    if as_json:
        shown = [_as_dict(result) for result in results]
        console.print_json(shown[0] if len(shown) == 1 else shown)
        return
    for result in results:
        console.print_table(
            tables.COLUMNS,
            tables.rows(result.tables["test"]),
            title=f"{result.name} version {result.version} on "
            f"{len(result.data.split('test')):,} held-out prompts",
        )
        console.note(f"Forecasts: {result.flatness}.")
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


def _as_dict(result: Result) -> dict[str, Any]:
    from dataclasses import asdict

    from serving.cli import tables

    return {
        "name": result.name,
        "version": result.version,
        "run_id": result.run_id,
        "promoted": result.promotion is not None,
        "verdict": None if result.verdict is None else result.verdict.as_dict(),
        "missed": [asdict(miss) for miss in result.misses],
        "forecast_spread": result.flatness.share,
        **{
            split: [dict(zip(tables.COLUMNS, row, strict=True)) for row in tables.rows(table)]
            for split, table in result.tables.items()
        },
    }
