"""What every recipe is: a way to turn rows into a scorer, with its source and what differs here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from training.encoder.config import EncoderConfig
from training.recipes.benchmark import Benchmark
from training.recipes.compare import Floats
from training.sources import Progress, silent

#: Part of the key under which results are kept: raise it when a change here moves scores.
VERSION = 1


@dataclass(frozen=True, slots=True)
class Setup:
    """What all recipes of a table share, so that only the recipe differs.

    ``encoder`` holds backbone, text, batches and learning rates of every recipe with a transformer;
    its losses and its number of epochs are a recipe's own. ``epochs``, where given, is the most
    that a recipe may take through the whole network. In ``workdir`` a training that takes long may
    leave what it can go on from.
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    epochs: int | None = None
    workdir: Path | None = None
    progress: Progress = silent

    @property
    def seed(self) -> int:
        return self.encoder.seed


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

    def settings(self, benchmark: Benchmark, setup: Setup) -> dict[str, object]:
        """What decides the result besides the rows, as JSON takes it."""
        ...
