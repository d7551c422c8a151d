"""A small ranker, trained on invented prompts whose lengths follow from their words."""

from __future__ import annotations

import numpy as np
import pytest

from ranker.calibration import CalibrationConfig
from ranker.length_ranker import LengthRanker
from ranker.types import FinishReason
from training.config import FitConfig, TreeConfig
from training.fit import train
from training.sources import Example

LONG = ("essay", "chapter", "report", "story")
SHORT = ("capital", "synonym", "sum", "date")
FILLER = ("of", "the", "river", "about", "winter", "in", "a", "small", "town", "and", "trade")


def invented(rows: int, seed: int = 0) -> list[Example]:
    """Prompts that ask for much or for little; lengths lognormal around 400 or 20 tokens."""
    rng = np.random.default_rng(seed)
    examples = []
    for i in range(rows):
        much = bool(rng.integers(2))
        words = [str(rng.choice(LONG if much else SHORT))]
        words += [str(w) for w in rng.choice(FILLER, rng.integers(3, 12))]
        tokens = int(np.ceil(rng.lognormal(np.log(400 if much else 20), 0.5)))
        split = ("train", "train", "validation", "test")[i % 4]
        prompt = f"{' '.join(words)} {i}"
        examples.append(Example(prompt, tokens, FinishReason.STOP, "toy", str(i), split))
    return examples


@pytest.fixture(scope="session")
def examples() -> list[Example]:
    return invented(800)


@pytest.fixture(scope="session")
def ranker(examples: list[Example]) -> LengthRanker:
    config = FitConfig(trees=TreeConfig(rounds=40), calibration=CalibrationConfig(knots=9))
    return train(examples, config, served_model="toy", name="length-ranker-toy").ranker
