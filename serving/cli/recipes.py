"""The table of published recipes and our rankers: ``shortfirst evaluate --recipes``."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from serving.cli import console, tables

if TYPE_CHECKING:
    from training.recipes.benchmark import Benchmark
    from training.recipes.recipe import Recipe, Setup
    from training.recipes.run import Entry
    from training.recipes.store import Fitted, Store

#: What ``--on`` knows. The last three need files of a folder that is not shipped.
TRAFFICS = ("sharegpt", "smollm2", "elsewhere", "alpacaeval", "alpacaeval-folds")
#: Shipped configurations of our own that stand beside the recipes, as far as they ship.
OURS = ("lexical", "blend")
COLUMNS = (
    "traffic",
    "recipe",
    "rows",
    "tau_b",
    "tau_low",
    "tau_high",
    "gain",
    "half_width",
    "pairs",
    "short_long",
    "of_ceiling",
    "cpu_ms",
    "cpu_min",
)
_QUICK_ROWS = 600
_CAPTION = (
    "gain, half_width: tau-b above the best published recipe (the best itself: above the second) "
    "and half the paired 95% interval. pairs, short_long: share in the right order, of all pairs "
    "and of those between the shortest and the longest third. cpu_ms a prompt, cpu_min of training."
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What the command line asked for; empty tuples stand for everything."""

    on: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    data: Path | None = None
    tokenizer: Path | None = None
    epochs: int | None = None
    seed: int = 0
    quick: bool = False
    kept: bool = False

    def __post_init__(self) -> None:
        if unknown := set(self.on) - set(TRAFFICS):
            raise ValueError(f"--on: {min(unknown)!r} is none of {', '.join(TRAFFICS)}")
        if self.data is not None and not self.data.is_dir():
            raise ValueError(f"--shared-data: {self.data} is no folder")


def show(choice: Choice, *, as_json: bool, as_csv: bool) -> None:
    """Run what is not kept yet, then print the table. Ctrl-C prints what there is by then."""
    from serving.paths import Home
    from training.recipes.shipped import Shipped
    from training.recipes.store import Store

    recipes(choice)  # a name that is none: said before the data are read
    store = Store(Home.resolve().cache / "recipes", Shipped.of_package())
    rows, stopped = compare(_benchmarks(choice), choice, store)
    _print(rows, as_json=as_json, as_csv=as_csv)
    if stopped:
        console.note("Stopped; what is done is kept, and the same command goes on from there.")
        raise typer.Exit(130)


def compare(
    benchmarks: Sequence[Sequence[Benchmark]], choice: Choice, store: Store
) -> tuple[list[Entry], bool]:
    """Rows of the table, and whether somebody stopped the work before the last of them.

    Each of ``benchmarks`` is one, or the folds of one.
    """
    from training.recipes.run import entries

    published, own = recipes(choice)
    rivals = [recipe.name for recipe in published]
    rows: list[Entry] = []
    for folds in benchmarks:
        found, stopped = [], False
        for fold in folds:
            results, stopped = _results(fold, [*published, *own], choice, store, stopped)
            found.append((fold, results))
        rows += entries(found, rivals, seed=choice.seed)
        if stopped:
            return rows, True
    return rows, False


def sources(choice: Choice, *, as_json: bool) -> None:
    """Where each recipe is described and what is done otherwise here."""
    from training.recipes.catalogue import SHARED

    published, own = recipes(choice)
    rows = [(recipe.name, recipe.source, recipe.differs) for recipe in (*published, *own)]
    console.show(("recipe", "source", "differs"), rows, as_json=as_json, caption=SHARED)


def recipes(choice: Choice) -> tuple[list[Recipe], list[Recipe]]:
    """The published ones and ours. Raises ``ValueError`` for a name that is neither."""
    from training import configs
    from training.recipes.catalogue import RECIPES
    from training.recipes.ours import Ours

    named = choice.ours or tuple(name for name in OURS if name in configs.shipped())
    found = [configs.read(spec) for spec in named]
    own: list[Recipe] = [Ours(f"ours-{settings.name}", settings.train) for settings in found]
    names = [recipe.name for recipe in (*RECIPES, *own)]
    if unknown := set(choice.only) - set(names):
        raise ValueError(f"--only: {min(unknown)!r} is none of {', '.join(names)}")

    def kept(every: Sequence[Recipe]) -> list[Recipe]:
        return [recipe for recipe in every if not choice.only or recipe.name in choice.only]

    return kept(RECIPES), kept(own)


def _benchmarks(choice: Choice) -> list[tuple[Benchmark, ...]]:
    from serving.paths import Home
    from training.bundled import corpus
    from training.recipes import traffics

    wanted = choice.on or TRAFFICS
    with tables.stages() as progress:
        chat = corpus(Home.resolve().cache, choice.tokenizer, progress)
    found: list[tuple[Benchmark, ...]] = []
    others = _file(choice, "elsewhere", traffics.OTHERS, wanted)
    if "sharegpt" in wanted or others is not None:
        made = traffics.sharegpt(chat, others)
        found.append((replace(made, trials=tuple(t for t in made.trials if t.name in wanted)),))
    if "smollm2" in wanted:
        found.append((traffics.bundled(chat),))
    if (alpaca := _file(choice, "alpacaeval", traffics.ALPACA, wanted)) is not None:
        found.append((traffics.alpacaeval(alpaca, chat),))
    if (alpaca := _file(choice, "alpacaeval-folds", traffics.ALPACA, wanted)) is not None:
        found.append(traffics.alpacaeval_folds(alpaca, chat))
    if choice.quick:
        return [tuple(fold.part(_QUICK_ROWS) for fold in folds) for folds in found]
    return found


def _file(choice: Choice, traffic: str, name: str, wanted: Sequence[str]) -> Path | None:
    """A file of the folder with shared data; a note when it is wanted and not there."""
    if traffic not in wanted:
        return None
    path = choice.data / name if choice.data is not None else None
    if path is None or not path.is_file():
        console.note(f"{traffic}: left out, since --shared-data names no folder with {name}")
        return None
    return path


def _results(
    benchmark: Benchmark,
    chosen: Sequence[Recipe],
    choice: Choice,
    store: Store,
    stopped: bool,
) -> tuple[dict[str, Fitted], bool]:
    """What each recipe gave, and whether somebody stopped the work by then: after that nothing
    more is trained."""
    from training.encoder.config import EncoderConfig
    from training.recipes.recipe import Setup
    from training.recipes.run import known

    setup = Setup(EncoderConfig(seed=choice.seed), epochs=1 if choice.quick else choice.epochs)
    kept = {recipe.name: known(recipe, benchmark, setup, store) for recipe in chosen}
    missing = [recipe for recipe in chosen if kept[recipe.name] is None]
    todo = [] if choice.kept or stopped else missing
    start = time.monotonic()
    for done, recipe in enumerate(todo, start=1):
        try:
            kept[recipe.name] = _run(recipe, benchmark, setup, store)
        except KeyboardInterrupt:
            stopped = True
            break
        left = (time.monotonic() - start) / done * (len(todo) - done) / 60.0
        console.note(f"{benchmark.name}: {done} of {len(todo)} trained, about {left:.0f} min to go")
    return {name: fitted for name, fitted in kept.items() if fitted is not None}, stopped


def _run(recipe: Recipe, benchmark: Benchmark, setup: Setup, store: Store) -> Fitted:
    from training.recipes.run import fitted

    with tables.stages() as progress:

        def told(stage: str, done: float, total: float) -> None:
            progress(f"{recipe.name} on {benchmark.name}: {stage}", done, total)

        return fitted(recipe, benchmark, replace(setup, progress=told), store)


def _print(rows: Sequence[Entry], *, as_json: bool, as_csv: bool) -> None:
    cells = [
        (
            entry.trial,
            entry.recipe,
            entry.rows,
            entry.standing.tau,
            entry.standing.low,
            entry.standing.high,
            entry.standing.gain,
            entry.standing.half,
            entry.standing.accuracy,
            entry.standing.short_long,
            entry.share,
            round(entry.milliseconds, 3),
            round(entry.minutes, 2),
        )
        for entry in rows
    ]
    if as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows((COLUMNS, *cells))
    else:
        console.show(COLUMNS, cells, as_json=as_json, caption=_CAPTION)
