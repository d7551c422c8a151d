"""Our own rankers, trained by a configuration as ``shortfirst train`` would, beside the recipes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ranker.length_ranker import POOLED
from ranker.prediction import LengthModel
from training import provenance
from training.config import TrainConfig
from training.fit import train
from training.recipes.benchmark import Benchmark
from training.recipes.compare import Floats
from training.recipes.recipe import Scorer, Setup
from training.sources import digest


@dataclass(frozen=True)
class Ours:
    """``config`` decides the model. Later turns and other models' answers help it to learn; it is
    told who will answer."""

    name: str
    config: TrainConfig = field(repr=False)
    source: str = "this repository: training/fit.py"
    differs: str = "later turns and other models' answers train too, with less weight"

    def fit(self, benchmark: Benchmark, setup: Setup) -> Scorer:
        """Train; validation rows choose and calibrate, as always."""
        served = {e.model for e in benchmark.train}
        trained = train(
            [*benchmark.train, *benchmark.validation],
            self.config,
            served_model=served.pop() if len(served) == 1 else POOLED,
            name=self.name,
            auxiliary=[*benchmark.later, *benchmark.auxiliary],
            workdir=setup.workdir,
            progress=setup.progress,
        )
        return scorer(trained.ranker.model)

    def settings(self, benchmark: Benchmark, setup: Setup) -> dict[str, object]:
        return {
            "config": {name: repr(value) for name, value in self.config.params().items()},
            "later": digest(benchmark.later),
            "auxiliary": digest(benchmark.auxiliary),
            "code": provenance.code(),
        }


def scorer(model: LengthModel) -> Scorer:
    """Scores of ``model``, each prompt for the model that will answer it."""

    def scores(prompts: Sequence[str], models: Sequence[str]) -> Floats:
        found = np.empty(len(prompts))
        served = np.array(models)
        for name in np.unique(served):
            rows = np.flatnonzero(served == name)
            found[rows] = model.predict([prompts[i] for i in rows.tolist()], str(name)).scores
        return found

    return scores
