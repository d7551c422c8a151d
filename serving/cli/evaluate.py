"""``shortfirst evaluate``: how good an order is, on held-out rows or on other traffic."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli import training_data
from serving.cli.registry import TrackingUri, open_registry

if TYPE_CHECKING:
    from ranker.length_ranker import LengthRanker
    from ranker.registry import Registry


def evaluate(
    ranker: Annotated[
        str, typer.Argument(help="models:/name@alias, models:/name/3 or a folder.")
    ] = "models:/length-ranker@champion",
    data: training_data.Data = "",
    prompts: training_data.Prompts = None,
    column: training_data.Column = None,
    limit: training_data.Limit = None,
    most: training_data.Most = None,
    split: Annotated[str, typer.Option(help="test or validation.")] = "test",
    traffic: Annotated[
        str, typer.Option(help="A slice of other traffic in held-out buckets, or all.")
    ] = "",
    slices: Annotated[
        bool, typer.Option("--slices", help="By language, code, length and novelty as well.")
    ] = False,
    tokenizer: training_data.Tokenizer = None,
    tracking_uri: TrackingUri = "",
    recipes: Annotated[
        bool, typer.Option("--recipes", help="Published recipes beside our rankers, trained here.")
    ] = False,
    sources: Annotated[
        bool, typer.Option("--sources", help="With --recipes: where each is from; no training.")
    ] = False,
    on: Annotated[
        list[str] | None,
        typer.Option(
            help="With --recipes: sharegpt, smollm2, elsewhere, alpacaeval, alpacaeval-folds; all."
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="With --recipes: a recipe by name; all.")
    ] = None,
    ours: Annotated[
        list[str] | None,
        typer.Option(help="With --recipes: a configuration of ours, by name or TOML file."),
    ] = None,
    shared_data: Annotated[
        Path | None,
        typer.Option(
            envvar="SHORTFIRST_DATA",
            help="With --recipes: folder with prompts_nc.parquet and prompts_permissive.parquet. "
            "With --traffic all: novelty and order on the sources of the latter.",
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="With --recipes: at most so many for each.", min=1)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="With --recipes: a few hundred rows, one epoch.")
    ] = False,
    kept: Annotated[
        bool, typer.Option("--kept", help="With --recipes: what is done already, no training.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="With --recipes: print CSV.")] = False,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.", min=0)] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Kendall tau-b with interval, pair accuracy and coverage of a ranker, beside baselines.

    Rows that a registered ranker was trained on, by hashes of prompts and conversations that its
    run keeps, are left out; a footnote says how many, or that it is not known (--json: left_out).

    With --recipes instead every published recipe and our own rankers, trained on the same rows:
    hours on a small machine. Each result is kept, Ctrl-C prints what there is, and the same command
    goes on.

    \b
    Examples:
      shortfirst evaluate models:/length-ranker@champion
      shortfirst evaluate --recipes --sources
      shortfirst evaluate --recipes --on sharegpt --only ltr --only ours-lexical
    """
    if recipes or sources:
        from serving.cli import recipes as table

        choice = table.Choice(
            tuple(on or ()),
            tuple(only or ()),
            tuple(ours or ()),
            shared_data,
            tokenizer,
            epochs,
            seed,
            quick,
            kept,
        )
        if sources:
            table.sources(choice, as_json=json)
        else:
            table.show(choice, as_json=json, as_csv=as_csv)
        return
    from ranker.baseline import PromptLengthRanker
    from ranker.types import Forecast
    from serving.cli import console, novelty_table, tables
    from serving.paths import Home
    from training import evaluate as judge
    from training import honesty
    from training.bundled import corpus
    from training.enough import enough_to_judge
    from training.forecasts import forecasts_of
    from training.held_out import HeldOut, footnote
    from training.novelty.shift import elsewhere
    from training.recipes.traffics import OTHERS
    from training.slices import SliceRow, by_slice
    from training.traffic import SLICES, shifted

    if split not in ("test", "validation"):
        raise ValueError("--split must be test or validation: training rows judge nothing")
    columns = training_data.named_columns(column)
    if traffic:
        if data:
            raise ValueError("--traffic: slices are of the bundled data; leave --data away")
        own = training_data.Wanted(prompts=prompts, columns=columns, limit=limit, most=most)
        own.refuse_options("--traffic is of the bundled data")
    registry = open_registry(tracking_uri)
    loaded = registry.load(ranker)
    label = f"{loaded.name}/{loaded.version}"
    registered = ranker.startswith("models:/")
    who = label if registered else ranker
    trained_on = _trained_on(registry, loaded) if registered else None
    sets: dict[str, HeldOut] = {}
    with tables.stages() as progress:
        if traffic:
            bundled = corpus(Home.resolve().cache, tokenizer, progress, later=False)
            names = tuple(SLICES) if traffic == "all" else (traffic,)
            sets |= {
                name: HeldOut.of(shifted(bundled, name), trained_on, source=name, ranker=who)
                for name in names
            }
        else:
            wanted = training_data.Wanted(
                data, loaded.served_model, prompts, tokenizer, columns, limit, most
            )
            source = wanted.job("", progress).data
            held = enough_to_judge(source.examples, source.name, split)
            sets[split] = HeldOut.of(held, trained_on, source=source.name, ranker=who)
    rows, told = [], dict[str, list[Forecast]]()
    for name, part in sets.items():
        told[name] = forecasts_of(loaded, part.rows)
        found = judge.judged(
            {label: told[name]},
            part.rows,
            seed=seed,
            orders={"prompt-length": PromptLengthRanker.scores([e.prompt for e in part.rows])},
        )
        # A column of JSON alone: one footnote says it to people.
        more = (part.left_out,) if json else ()
        rows += [(name, *cells, *more) for cells in tables.rows(found)]
    columns_shown = ("traffic", *tables.COLUMNS, *(("left_out",) if json else ()))
    console.show(columns_shown, rows, as_json=json, caption=footnote(sets, who))
    if not json and traffic == "all":
        others = None if shared_data is None else shared_data / OTHERS
        near = {name: (part.rows, told[name]) for name, part in sets.items()}
        novelty_table.show(near, {} if others is None else elsewhere(others, loaded))
    if json or traffic:
        return
    examples, forecasts = sets[split].rows, told[split]
    if len(examples) >= judge.LEAST_ROWS:
        console.note(f"Forecasts: {judge.flatness(forecasts, examples)}.")
    if len(examples) >= honesty.LEAST_ROWS:
        console.note(f"Forecasts are {honesty.honesty(forecasts, examples, seed=seed)}.")
    if slices:
        parts = by_slice(forecasts, examples, seed=seed)
        headings = [f.name for f in fields(SliceRow)]
        console.print_table(headings, [list(asdict(part).values()) for part in parts])


def _trained_on(registry: Registry, loaded: LengthRanker) -> bytes | None:
    """Hashes of what a version was trained on; ``None`` when its run is gone or keeps none."""
    from ranker.registry import RegistryError
    from training.gate import SEEN_FILE

    try:
        return registry.attached(loaded.name, loaded.version, SEEN_FILE)
    except RegistryError:
        return None
