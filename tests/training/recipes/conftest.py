from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from training.encoder.config import EncoderConfig
from training.recipes.benchmark import Benchmark, Trial
from training.recipes.recipe import Setup
from training.sources import Example


@pytest.fixture(scope="session")
def setup(tmp_path_factory) -> Setup:
    """A few epochs of a BERT of two narrow layers."""
    from tests.training.encoder.conftest import tiny_bert

    folder: Path = tiny_bert(tmp_path_factory.mktemp("tiny bert é"))
    config = EncoderConfig(
        backbone=str(folder),
        length=12,
        batch=8,
        learning_rate=2e-3,
        head_learning_rate=1e-2,
        precision="fp32",
        threads=1,
    )
    return Setup(config, epochs=3)


@pytest.fixture(scope="session")
def benchmark_rows() -> list[Example]:
    from tests.training.encoder.conftest import invented

    return invented(240)


@pytest.fixture(scope="session")
def toy(benchmark_rows) -> Benchmark:
    """ "essay" asks for a long answer, "date" for a short one; some are cut at a limit."""
    train = tuple(e for e in benchmark_rows if e.split == "train")
    held = [e for e in benchmark_rows if e.split == "validation"]
    test = tuple(replace(e, split="test") for e in held[::2])
    return Benchmark("toy", train, tuple(held[1::2]), (Trial.whole("toy", test),))
