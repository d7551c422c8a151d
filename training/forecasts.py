"""Forecasts of examples, each asked for the model that answered it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ranker.types import Forecast
from training.sources import Example


class Forecaster(Protocol):
    """A ranker that can be asked for one of several served models.

    One that does not know a model says what it says of all, as
    :class:`ranker.length_ranker.LengthRanker` does.
    """

    def forecast(self, prompts: Sequence[str], served_model: str = "") -> list[Forecast]:
        """One forecast per prompt, in order. Pure: same prompts and model, same forecasts."""
        ...


def forecasts_of(ranker: Forecaster, examples: Sequence[Example]) -> list[Forecast]:
    """One forecast per example, in order, as a service would give it to the model's engine.

    A prompt is read once for each model, however often that one answered it.
    """
    found: dict[tuple[str, str], Forecast] = {}
    for model in sorted({e.model for e in examples}):
        prompts = list(dict.fromkeys(e.prompt for e in examples if e.model == model))
        told = ranker.forecast(prompts, model)
        found.update({(model, p): f for p, f in zip(prompts, told, strict=True)})
    return [found[e.model, e.prompt] for e in examples]
