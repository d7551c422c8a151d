"""Forecasts of examples, each asked for the model that answered it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ranker.length_ranker import LengthRanker
from ranker.types import Forecast, Ranker
from training.sources import Example


class Forecaster(Protocol):
    """A ranker that answers for several served models."""

    def forecast(self, prompts: Sequence[str], served_model: str = "") -> list[Forecast]: ...


def forecasts_of(ranker: Ranker, examples: Sequence[Example]) -> list[Forecast]:
    """One forecast per example, in order, as a service would give it to the model's engine."""
    if isinstance(ranker, LengthRanker):
        return by_model(ranker, examples)
    return ranker.forecast([e.prompt for e in examples])


def by_model(ranker: Forecaster, examples: Sequence[Example]) -> list[Forecast]:
    """As :func:`forecasts_of`, of a ranker that may know several models."""
    found: dict[int, Forecast] = {}
    for model in sorted({e.model for e in examples}):
        rows = [i for i, e in enumerate(examples) if e.model == model]
        told = ranker.forecast([examples[i].prompt for i in rows], model)
        found.update(zip(rows, told, strict=True))
    return [found[i] for i in range(len(examples))]
