"""A recipe that fine-tunes the encoder: what tells one paper from the next is an objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from training.recipes.benchmark import Benchmark
from training.recipes.compare import Floats
from training.recipes.objective import Objective
from training.recipes.recipe import Scorer, Setup
from training.sources import Lengths, digest

#: Settings of our encoder that hold for recipes too.
_SHARED = (
    "backbone",
    "length",
    "head_share",
    "learning_rate",
    "head_learning_rate",
    "weight_decay",
    "warm_up",
    "clip",
    "batch",
    "dropout",
    "precision",
    "seed",
)


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

    def fit(self, benchmark: Benchmark, setup: Setup) -> Scorer:
        """Fine-tune as published; validation is not looked at, since the papers choose nothing
        by it."""
        from training.recipes.finetune import Head, finetune

        rows = (*benchmark.learnt(), *(benchmark.later if self.later else ()))
        tokens = Lengths.of(rows).tokens
        objective = self.objective(tokens)
        most = self._most(setup)
        prompts = [e.prompt for e in rows]
        reader = finetune(prompts, tokens, objective, Head(self.layers), most, self.frozen, setup)

        def scores(prompts: Sequence[str], models: Sequence[str]) -> Floats:
            return objective.scores(reader.outputs(prompts))

        return scores

    def settings(self, benchmark: Benchmark, setup: Setup) -> dict[str, object]:
        tokens = Lengths.of(benchmark.learnt()).tokens
        config = setup.encoder.params()
        return {
            "objective": repr(self.objective(tokens)),
            "course": [self._most(setup), self.frozen, self.layers],
            "later": digest(benchmark.later) if self.later else "",
            "encoder": {name: config[name] for name in _SHARED},
        }

    def _most(self, setup: Setup) -> int:
        return self.epochs if setup.epochs is None else min(self.epochs, setup.epochs)
