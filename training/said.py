"""What a model says of examples: each prompt is read once, however often it was answered."""

from __future__ import annotations

from collections.abc import Sequence

from ranker.prediction import LengthModel, Prediction
from training.draws import prompt_numbers
from training.sources import Example


def said_of(model: LengthModel, examples: Sequence[Example], served_model: str) -> Prediction:
    """One row per example, in order, as asked for ``served_model``.

    An encoder takes some 15 ms a prompt, and a table of several draws, or of several models'
    answers to the same prompts, names each of them many times.
    """
    prompts = list(dict.fromkeys(e.prompt for e in examples))  # in the order of the numbers below
    return model.predict(prompts, served_model).at(prompt_numbers(examples))
