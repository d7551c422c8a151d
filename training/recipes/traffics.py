"""The traffic that recipes are tried on: real chat, the bundled model, 34 models, other sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from training import foreign, smollm2
from training.recipes.benchmark import Benchmark, Trial, draws
from training.sharegpt import ShareGpt
from training.sources import Example, without_leaks
from training.split import bucket

#: Data of the folder that ``--shared-data`` names; neither is shipped.
ALPACA, OTHERS = "prompts_nc.parquet", "prompts_permissive.parquet"
_LEAST, _MOST = 20, 1000  # rows of a group of other traffic: fewer say little, more only cost
_FOLDS = 3  # trainings on other rows of one benchmark
_PARTS, _TESTED = 9, 3  # that prompts fall into, and of which those of a fold are tested
_DRAWS = 8  # answers to a prompt, of as many models, that a recipe without models learns from


def sharegpt(corpus: ShareGpt, others: Path | None) -> Benchmark:
    """First turns; and, where the file ``others`` is there, traffic that nobody trained on."""
    data = corpus.data()
    trials = [Trial.whole("sharegpt", data.split("test"))]
    if others is not None:
        trials.append(elsewhere(others))
    return Benchmark(
        "sharegpt",
        tuple(data.split("train")),
        tuple(data.split("validation")),
        tuple(trials),
        later=corpus.auxiliary().examples,
    )


def bundled(corpus: ShareGpt) -> Benchmark:
    """The bundled model's own lengths, several draws of a held-out prompt where there are some."""
    data = smollm2.load(corpus, smollm2.CALM)
    test = data.split("test")
    groups, ceiling = draws(test)
    return Benchmark(
        "smollm2",
        tuple(data.split("train")),
        tuple(data.split("validation")),
        (Trial("smollm2", tuple(test), groups, ceiling=ceiling),),
        auxiliary=(*smollm2.load(corpus, smollm2.LIVELY).examples, *corpus.data().examples),
    )


def alpacaeval(path: Path, corpus: ShareGpt) -> Benchmark:
    """34 models on prompts that no ranker saw: together as one queue, and each on its own."""
    return _models("alpacaeval", without_leaks(_alpaca(path)), corpus.data().examples)


def alpacaeval_folds(path: Path, corpus: ShareGpt) -> tuple[Benchmark, ...]:
    """The same with every prompt held out once: three trainings, each judged on another third.

    A ninth of the prompts is validation and five ninths train. The file's own test rows are 70
    prompts, and differences between good rankers are smaller than what so few can tell.
    """
    rows, auxiliary = _alpaca(path), corpus.data().examples
    folds = []
    for fold in range(_FOLDS):
        splits = [_split_of_fold(e.prompt, fold) for e in rows]
        turned = [replace(e, split=split) for e, split in zip(rows, splits, strict=True)]
        name = f"alpacaeval-folds {fold + 1}/{_FOLDS}"
        folds.append(_models(name, without_leaks(turned), auxiliary, prefix="alpacaeval-folds"))
    return tuple(folds)


def _split_of_fold(prompt: str, fold: int) -> str:
    """By a hash of the prompt, of nine parts three test and the next validation."""
    part = (bucket(prompt) - _TESTED * fold) % _PARTS
    return "test" if part < _TESTED else "validation" if part == _TESTED else "train"


def _alpaca(path: Path) -> list[Example]:
    return [
        example
        for source in foreign.sources(path, "alpaca_eval/")
        for example in foreign.load(path, source, own_splits=True)
        if example.output_tokens
    ]


def _models(
    name: str, rows: Sequence[Example], auxiliary: tuple[Example, ...], prefix: str = "alpacaeval"
) -> Benchmark:
    train, validation, test = (
        tuple(e for e in rows if e.split == split) for split in ("train", "validation", "test")
    )
    models = np.array([e.model for e in test])
    each = tuple(np.flatnonzero(models == model) for model in np.unique(models))
    every = (np.arange(len(test)),)
    return Benchmark(
        name,
        train,
        validation,
        (
            Trial(prefix, test, every),
            Trial(f"{prefix}-scaled", test, every, scaled=True),
            Trial(f"{prefix}-models", test, each, centre="median"),
        ),
        plain=one_scale(train, np.random.default_rng(0)),
        auxiliary=auxiliary,
    )


def one_scale(train: Sequence[Example], rng: np.random.Generator) -> tuple[Example, ...]:
    """Answers of several models as if one model had given them, for recipes that know but one.

    Each length is divided by the median of its model and multiplied by that of all; of each prompt
    a few answers are kept, drawn at random.
    """
    tokens = np.array([e.output_tokens for e in train], dtype=np.float64)
    models = np.array([e.model for e in train])
    typical = {model: max(1.0, float(np.median(tokens[models == model]))) for model in set(models)}
    overall = float(np.median(tokens))
    at: dict[str, list[int]] = {}
    for i, example in enumerate(train):
        at.setdefault(example.prompt, []).append(i)
    kept = [i for rows in at.values() for i in rng.permutation(rows)[:_DRAWS]]
    return tuple(
        replace(train[i], output_tokens=max(1, round(tokens[i] / typical[models[i]] * overall)))
        for i in sorted(kept)
    )


def elsewhere(path: Path) -> Trial:
    """Every source and model of the file ``path`` as a group; the mean of their taus."""
    rng = np.random.default_rng(0)
    rows: list[Example] = []
    groups = []
    for source in foreign.sources(path):
        found = [e for e in foreign.load(path, source) if e.output_tokens]
        for model in sorted({e.model for e in found}):
            part = [e for e in found if e.model == model]
            if len(part) >= _LEAST:
                chosen = sorted(rng.permutation(len(part))[:_MOST])
                groups.append(np.arange(len(rows), len(rows) + len(chosen)))
                rows += [part[i] for i in chosen]
    return Trial("elsewhere", tuple(rows), tuple(groups))
