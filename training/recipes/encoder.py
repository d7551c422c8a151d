"""A recipe that fine-tunes the encoder: what tells one paper from the next is an objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from training.recipes.benchmark import Benchmark
from training.recipes.compare import Floats
from training.recipes.objective import Objective
from training.recipes.recipe import Scorer, Setup
from training.sources import Lengths

if TYPE_CHECKING:
    from training.recipes.finetune import Course


@dataclass(frozen=True)
class EncoderRecipe:
    """``objective`` makes the paper's objective from the training lengths; ``epochs`` and
    ``frozen`` are the paper's, ``layers`` the hidden layers of its head. ``later`` adds the turns
    that follow the first to the training rows, for which there is no paper."""

    name: str
    source: str
    differs: str
    objective: Callable[[Floats], Objective] = field(repr=False)
    epochs: int = 5
    frozen: int = 0
    layers: int = 0
    later: bool = False

    def course(self) -> Course:
        from training.recipes.finetune import Course

        return Course(epochs=self.epochs, frozen=self.frozen, layers=self.layers)

    def fit(self, benchmark: Benchmark, setup: Setup) -> Scorer:
        """Fine-tune as published; ``validation`` is not looked at, since the papers choose nothing
        by it."""
        from training.recipes.finetune import finetune

        rows = (*benchmark.learnt(), *(benchmark.later if self.later else ()))
        tokens = Lengths.of(rows).tokens
        objective = self.objective(tokens)
        reader = finetune(
            [e.prompt for e in rows], tokens, objective, self.course(), setup, self.name
        )

        def scores(prompts: Sequence[str], models: Sequence[str]) -> Floats:
            return objective.scores(reader.outputs(prompts))

        return scores

    def settings(self, benchmark: Benchmark) -> dict[str, object]:
        """What decides the result besides the rows, for the key of the cache."""
        objective = self.objective(Lengths.of(benchmark.learnt()).tokens)
        return {"course": asdict(self.course()), "objective": repr(objective), "later": self.later}
