"""Rows to learn from and to be judged by: the same for every recipe."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ranker.metrics import ceiling
from training.draws import Draws, prompt_numbers
from training.recipes.compare import Sample
from training.sources import Data, Example, Lengths, apart


@dataclass(frozen=True)
class Trial:
    """Held-out rows under a name. ``groups`` hold numbers of rows; only rows of one group are
    compared with each other, and taus of groups are put together by their ``centre``.

    ``scaled``: before rows of different served models are compared, scores of each model are put
    on the scale of expected log tokens, fitted on validation. ``ceiling`` is the tau of another
    draw of the same prompts; NaN without one.
    """

    name: str
    examples: tuple[Example, ...] = field(repr=False)
    groups: tuple[NDArray[np.int64], ...] = field(repr=False)
    centre: str = "mean"
    scaled: bool = False
    ceiling: float = math.nan

    @classmethod
    def whole(cls, name: str, examples: Sequence[Example]) -> Trial:
        """All rows compared with all."""
        return cls(name, tuple(examples), (np.arange(len(examples)),))

    @classmethod
    def joined(cls, folds: Sequence[Trial]) -> Trial:
        """Trials of one kind after different trainings as one: their groups side by side, since
        scores of two trainings have no scale in common."""
        starts = np.cumsum([0, *(len(fold.examples) for fold in folds)])
        return replace(
            folds[0],
            examples=tuple(example for fold in folds for example in fold.examples),
            groups=tuple(
                group + start
                for start, fold in zip(starts, folds, strict=False)
                for group in fold.groups
            ),
        )

    def part(self, rows: int, rng: np.random.Generator) -> Trial:
        """About ``rows`` of the rows, the same number of every group, two at least."""
        most = max(2, rows // len(self.groups))
        chosen = [np.sort(rng.permutation(group)[:most]) for group in self.groups]
        kept = np.unique(np.concatenate(chosen))
        return replace(
            self,
            examples=tuple(self.examples[i] for i in kept),
            groups=tuple(np.searchsorted(kept, group) for group in chosen),
        )

    def sample(self) -> Sample:
        """The rows as :func:`training.recipes.compare.standings` takes them."""
        prompts = prompt_numbers(self.examples)
        return Sample(Lengths.of(self.examples), prompts, self.groups, self.centre)


@dataclass(frozen=True)
class Benchmark:
    """``train`` and ``validation`` rows with what is tried after learning from them.

    Of ``later`` and ``auxiliary`` remain training rows that share no prompt and no conversation
    with what is held out. ``plain`` are the training rows for a recipe that knows one served model,
    where ``train`` holds answers of several: lengths on one scale. ``later`` are more rows, of a
    kind that no paper used; ``auxiliary`` are other models' answers.
    """

    name: str
    train: tuple[Example, ...] = field(repr=False)
    validation: tuple[Example, ...] = field(repr=False)
    trials: tuple[Trial, ...]
    plain: tuple[Example, ...] = field(repr=False, default=())
    later: tuple[Example, ...] = field(repr=False, default=())
    auxiliary: tuple[Example, ...] = field(repr=False, default=())

    def __post_init__(self) -> None:
        tried = (replace(e, split="test") for trial in self.trials for e in trial.examples)
        held = (*self.validation, *tried)
        for name in ("later", "auxiliary"):
            helping = apart(Data(name, "", getattr(self, name)), held)
            object.__setattr__(self, name, helping.examples)

    def learnt(self) -> tuple[Example, ...]:
        """What a recipe as published learns from."""
        return self.plain or self.train

    def part(self, rows: int, seed: int = 0) -> Benchmark:
        """About ``rows`` rows of each kind, drawn at random, to see that everything runs."""
        rng = np.random.default_rng(seed)

        def some(examples: Sequence[Example]) -> tuple[Example, ...]:
            chosen = rng.permutation(len(examples))[:rows]
            return tuple(examples[i] for i in np.sort(chosen))

        return Benchmark(
            self.name,
            some(self.train),
            some(self.validation),
            tuple(trial.part(rows, rng) for trial in self.trials),
            some(self.plain),
            some(self.later),
            some(self.auxiliary),
        )


def draws(examples: Sequence[Example]) -> tuple[tuple[NDArray[np.int64], ...], float]:
    """Rows of the first draws of prompts, of the second, and so on, and how far two agree.

    Draws that fewer than half of the prompts have make no group of their own. Without two, one
    group and NaN.
    """
    prompts = prompt_numbers(examples)
    seen = np.zeros(prompts.max() + 1, np.int64)
    number = np.zeros(len(prompts), np.int64)  # of a row among the draws of its prompt
    for i, prompt in enumerate(prompts):
        number[i] = seen[prompt]
        seen[prompt] += 1
    groups = [np.flatnonzero(number == k) for k in range(seen.max())]
    kept = tuple(group for group in groups if 2 * len(group) >= len(seen))
    drawn = Draws.of(examples)
    return kept, ceiling(drawn.tokens, drawn.censored, resamples=0).tau


def questions(examples: Iterable[Example]) -> dict[tuple[str, str], int]:
    """What the rows ask, each prompt of a model once, numbered in the order of the rows: several
    draws of an answer are one question."""
    numbers: dict[tuple[str, str], int] = {}
    for e in examples:
        numbers.setdefault((e.prompt, e.model), len(numbers))
    return numbers


def asked(examples: Iterable[Example]) -> str:
    """Changes when a question does; scores depend on nothing else."""
    sha = hashlib.sha256()
    for prompt, model in questions(examples):
        sha.update(f"{model}\0{prompt}\0".encode("utf-8", "surrogatepass"))
    return sha.hexdigest()[:16]
