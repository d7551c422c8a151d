"""``shortfirst train``: data in, a registered ranker out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli import training_data
from serving.cli.optional_value import OptionalValues
from serving.cli.registry import TrackingUri, open_registry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ranker.registry import Registry
    from training.configs import Configuration
    from training.pipeline import Result

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_RECENT = "From outcomes"


@app.command(cls=OptionalValues)
def train(
    config: Annotated[
        str,
        typer.Option(
            help="A shipped configuration (lexical, encoder, blend, blend-alone, smollm2, "
            "smollm2-probe) or a TOML file. It may name data and metrics to reach; a run that "
            "misses one is registered, not promoted."
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
    from_outcomes: Annotated[
        str | None,
        typer.Option(
            metavar="[STORE]",
            help="Train on recent traffic: the realised lengths in this store (by default the "
            "rank service's own) with the prompts that shortfirst serve --retain-prompts kept "
            "beside it, or those of --prompts.",
            rich_help_panel=_RECENT,
        ),
    ] = None,
    half_life: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="OUTCOMES",
            help="A row counts half as much as one that came this many outcomes later. Default: "
            "of 60, 250, 1,000, 4,000 and 16,000 the one whose ranker orders the validation rows "
            "best.",
            rich_help_panel=_RECENT,
        ),
    ] = None,
    held_out: Annotated[
        int,
        typer.Option(
            min=2,
            metavar="ROWS",
            help="Of the newest fifth, hold out this many rows at most: half to calibrate, half "
            "to test. After a shift, what is held out is missing in training.",
            rich_help_panel=_RECENT,
        ),
    ] = 400,
    former: Annotated[
        bool,
        typer.Option(
            help="Learn, with less weight, from what the champion was trained with, too.",
            rich_help_panel=_RECENT,
        ),
    ] = True,
    reason: Annotated[str, typer.Option(help="Why, for the record.", rich_help_panel=_RECENT)] = "",
    challenger: Annotated[
        bool,
        typer.Option(
            "--challenger",
            help="Do not promote: let the alias challenger stand for the new version, which rank "
            "services then score in the shadow of the champion.",
            rich_help_panel=_RECENT,
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
      shortfirst train --config blend                with a fine-tuned encoder, 25 minutes
      shortfirst train --config smollm2-probe        the bundled model says how long it will answer
      shortfirst train --data log.parquet --served-model llama-3-8b
      shortfirst train --data log.parquet --pooled
      shortfirst train --tracking-uri http://mlflow.example:5000
      shortfirst train --from-outcomes               on recent traffic, judged by the newest of it
      shortfirst train --from-outcomes --challenger --reason "drift: degraded"

    Exit status 1: metrics missed what the configuration expects, or the gate refused. The version
    is registered then, but does not serve. Processes that torchrun --nproc-per-node 2 -m
    serving.cli train starts share the training of an encoder; the first does all the rest.
    """
    from dataclasses import replace

    from ranker.length_ranker import POOLED
    from serving.cli import console, train_report
    from serving.cli.from_outcomes import FromOutcomes
    from training import configs

    settings = configs.read(config)
    if from_outcomes is not None:
        _refuse(
            "beside --from-outcomes",
            {"--data": data or settings.data, "--pooled": pooled, "--column": column,
             "--limit": limit, "--most": most, "--restart": restart,
             "several --served-model": len(served_model or []) > 1, "torchrun": _is_one_of_many()},
        )  # fmt: skip
        wanted_model = (served_model or [settings.served_model])[0]
        done = FromOutcomes(
            from_outcomes,
            prompts,
            wanted_model,
            name,
            half_life,
            held_out,
            reason,
            former,
            challenger,
            promote,
            force,
            tokenizer,
        ).train(settings, tracking_uri, as_json=json)
        if not done:
            raise typer.Exit(1)
        return
    _refuse("without --from-outcomes", {"--challenger": challenger, "--reason": reason})
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
    train_report.report(results, as_json=json)
    if any(r.misses or (r.verdict is not None and r.promotion is None) for r in results):
        raise typer.Exit(1)


def _refuse(beside: str, given: Mapping[str, object]) -> None:
    """Raises ``ValueError`` naming the options that say nothing there."""
    if said := [option for option, value in given.items() if value]:
        raise ValueError(f"{', '.join(said)}: says nothing {beside}; leave it away")


def _is_one_of_many() -> bool:
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


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
