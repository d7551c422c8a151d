"""A tokenizer for invented chat, and examples whose lengths follow from a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ranker.calibration import CalibrationConfig
from ranker.types import FinishReason
from training.config import TrainConfig
from training.lexical_config import LexicalConfig, TreeConfig
from training.sources import Example


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory) -> Path:
    """One word, one token."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder = tmp_path_factory.mktemp("tokenizer")
    made.save(str(folder / "tokenizer.json"))
    return folder


def _invented(rows: int, model: str, seed: int) -> list[Example]:
    """One word decides whether an answer has about 20 or about 400 tokens; the rest is filler."""
    rng = np.random.default_rng(seed)
    filler = ["of", "the", "river", "about", "winter", "in", "a", "small", "town", "and", "trade"]
    found = []
    for i in range(rows):
        word, middle = [("essay", 400), ("date", 20)][rng.integers(2)]
        rest = " ".join(rng.choice(filler, rng.integers(3, 12)))
        tokens = int(np.ceil(rng.lognormal(np.log(middle), 0.5)))
        split = ("train", "train", "validation", "test")[i % 4]
        found.append(Example(f"{word} {rest} {i}", tokens, FinishReason.STOP, model, str(i), split))
    return found


@pytest.fixture(scope="session")
def examples() -> list[Example]:
    return _invented(600, "toy", 0)


@pytest.fixture(scope="session")
def helpers() -> list[Example]:
    """Another model's answers to prompts of the same kind."""
    return _invented(1200, "other", 1)


@pytest.fixture(scope="session")
def quick() -> TrainConfig:
    return TrainConfig(
        lexical=LexicalConfig(trees=TreeConfig(rounds=40)), calibration=CalibrationConfig(knots=9)
    )
