"""What every recipe is: a way to turn rows into a scorer, with its source and what differs here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from training.recipes.benchmark import Benchmark
from training.recipes.compare import Floats
from training.sources import Progress, silent

#: Part of the key under which results are kept: raise it when a change here moves scores.
VERSION = 1


@dataclass(frozen=True, slots=True)
class Setup:
    """What all recipes of a table share, so that only the recipe differs.

    ``backbone`` is the folder of the encoder (``None``: that of the installed wheel), ``length``
    how many tokens of a prompt it reads, ``epochs`` at most how many epochs a recipe may take
    (``None``: as many as it was published with).
    """

    backbone: Path | None = None
    length: int = 128
    epochs: int | None = None
    seed: int = 0
    progress: Progress = silent


class Scorer(Protocol):
    """Scores of prompts, one each, higher = longer; ``models`` names who will answer each."""

    def __call__(self, prompts: Sequence[str], models: Sequence[str]) -> Floats: ...


class Recipe(Protocol):
    """A published method. ``source`` says where it is described, ``differs`` what is done
    otherwise here, and why."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def differs(self) -> str: ...

    def fit(self, benchmark: Benchmark, setup: Setup) -> Scorer:
        """Learn from its training rows; choose, if there is a choice, on its validation rows."""
        ...

    def settings(self, benchmark: Benchmark) -> dict[str, object]:
        """What decides the result besides the rows and the setup, as JSON takes it."""
        ...
