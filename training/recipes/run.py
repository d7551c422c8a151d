"""Recipes through a benchmark: learn, score, time, keep, compare."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ranker import scale
from training.recipes.benchmark import Benchmark, Trial, asked, questions
from training.recipes.compare import Floats, Standing, standings
from training.recipes.recipe import VERSION, Recipe, Scorer, Setup
from training.recipes.store import Fitted, Store
from training.sources import Example, Lengths, digest

_TIMED = 48  # prompts, one at a time


@dataclass(frozen=True, slots=True)
class Entry:
    """One recipe on one trial. ``share`` is tau / ceiling, NaN where no prompt was answered
    twice; ``milliseconds`` a prompt and ``minutes`` of training are processor time."""

    recipe: str
    trial: str
    rows: int
    standing: Standing
    share: float
    milliseconds: float
    minutes: float


def key(recipe: Recipe, benchmark: Benchmark, setup: Setup) -> str:
    """Under which the result is kept: another for other rows, settings or code."""
    about = {
        "version": VERSION,
        "recipe": recipe.name,
        "settings": recipe.settings(benchmark, setup),
        "rows": digest((*benchmark.learnt(), *benchmark.train, *benchmark.validation)),
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def known(recipe: Recipe, benchmark: Benchmark, setup: Setup, store: Store) -> Fitted | None:
    """What the store has of ``recipe`` on the rows of ``benchmark``; ``None`` unless it is all."""
    kept = store.get(key(recipe, benchmark, setup))
    wanted = {asked(rows) for rows in _scored(benchmark)}
    return kept if kept is not None and wanted <= set(kept.scores) else None


def fitted(
    recipe: Recipe,
    benchmark: Benchmark,
    setup: Setup,
    store: Store,
    clock: Callable[[], float] = time.process_time,
) -> Fitted:
    """What ``recipe`` gives on the rows of ``benchmark``, from the store if it is all there."""
    kept = known(recipe, benchmark, setup, store)
    if kept is not None:
        return kept
    at = key(recipe, benchmark, setup)
    before = store.get(at)  # of other trials after the same training
    work = store.folder / f"{at}.work"
    start = clock()
    scorer = recipe.fit(benchmark, replace(setup, workdir=work))
    minutes = (clock() - start) / 60.0
    found = Fitted(
        recipe.name,
        minutes,
        _milliseconds(scorer, benchmark.trials[0].examples[:_TIMED], clock),
        {
            **({} if before is None else before.scores),
            **{asked(rows): _scores(scorer, rows) for rows in _scored(benchmark)},
        },
    )
    store.put(at, found)
    shutil.rmtree(work, ignore_errors=True)
    return found


def entries(
    folds: Sequence[tuple[Benchmark, Mapping[str, Fitted]]],
    published: Sequence[str],
    *,
    seed: int = 0,
    resamples: int = 500,
) -> list[Entry]:
    """A row for each result on each trial, compared with ``published``.

    ``folds`` hold a benchmark and what was got on it, by name. Of several, which have the same
    trials with other rows, a row is about the rows of all: those who have a result on each.
    """
    names = [name for name in folds[0][1] if all(name in results for _, results in folds)]
    rows: list[Entry] = []
    if not names:
        return rows
    for trials in zip(*(benchmark.trials for benchmark, _ in folds), strict=True):
        trial = Trial.joined(trials)
        scores = {
            name: np.concatenate(
                [
                    _comparable(part, benchmark, results[name])
                    for part, (benchmark, results) in zip(trials, folds, strict=True)
                ]
            )
            for name in names
        }
        found = standings(trial.sample(), scores, published, seed=seed, resamples=resamples)
        for name, standing in found.items():
            got = [results[name] for _, results in folds]
            share = standing.tau / trial.ceiling if not math.isnan(trial.ceiling) else math.nan
            rows.append(
                Entry(
                    name,
                    trial.name,
                    len(trial.examples),
                    standing,
                    share,
                    float(np.mean([one.milliseconds for one in got])),
                    float(np.mean([one.minutes for one in got])),
                )
            )
    return rows


def _comparable(trial: Trial, benchmark: Benchmark, result: Fitted) -> Floats:
    """Scores on the rows of ``trial``, on one scale where it asks for that."""
    found = _by_row(result, trial.examples)
    if not trial.scaled:
        return found
    return on_scales(found, trial, _by_row(result, benchmark.validation), benchmark.validation)


def _by_row(result: Fitted, rows: Sequence[Example]) -> Floats:
    """What ``result`` says of each row: draws of one prompt have one score."""
    numbers = questions(rows)
    return result.scores[asked(rows)][[numbers[e.prompt, e.model] for e in rows]]


def on_scales(
    scores: Floats, trial: Trial, checked: Floats, validation: Sequence[Example]
) -> Floats:
    """Scores of each served model as the log tokens that it gave to such scores in validation."""
    moved = np.empty(len(scores))
    models = np.array([e.model for e in trial.examples])
    held = np.array([e.model for e in validation])
    lengths = Lengths.of(validation)
    for model in np.unique(models):
        rows = held == model
        # A model without validation rows is taken for the average one.
        rows = rows if rows.any() else np.ones(len(held), np.bool_)
        line = scale.fit(checked[rows], lengths.tokens[rows], lengths.censored[rows])
        moved[models == model] = line(scores[models == model])
    return moved


def _scored(benchmark: Benchmark) -> list[tuple[Example, ...]]:
    return [benchmark.validation, *(trial.examples for trial in benchmark.trials)]


def _scores(scorer: Scorer, rows: Sequence[Example]) -> Floats:
    """A score for each question that the rows ask."""
    asking = list(questions(rows))
    return scorer([prompt for prompt, _ in asking], [model for _, model in asking])


def _milliseconds(scorer: Scorer, rows: Sequence[Example], clock: Callable[[], float]) -> float:
    taken = []
    for example in rows:
        start = clock()
        scorer([example.prompt], [example.model])
        taken.append(clock() - start)
    return 1000.0 * float(np.median(taken))
