from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ranker.types import FinishReason
from training.recipes import traffics
from training.sharegpt import ShareGpt
from training.sources import Example


def example(prompt: str, tokens: int, model: str) -> Example:
    return Example(prompt, tokens, FinishReason.STOP, model, f"{prompt}/{model}", "train")


def test_answers_of_several_models_on_one_scale() -> None:
    rows = [
        example(f"p{i}", size * (i + 1), model)
        for i in range(9)
        for model, size in (("brief", 10), ("wordy", 1000))
    ]
    found = traffics.one_scale(rows, np.random.default_rng(0))
    assert len(found) == len(rows)
    at = {(e.prompt, e.model): e.output_tokens for e in found}
    assert all(at[f"p{i}", "brief"] == at[f"p{i}", "wordy"] for i in range(9))
    many = [example("p", k + 1, f"m{k}") for k in range(30)]
    assert len(traffics.one_scale(many, np.random.default_rng(0))) == 8


def written(path: Path, sizes: dict[str, int], models: Sequence[str]) -> Path:
    """A file as the shared folder has them: of each source so many prompts, answered by all."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "id": f"{source}-{i}-{model}",
            "source": source,
            "model": model,
            "prompt": f"{source} {i}",
            "prompt_tokens": 2,
            "response_tokens": int(rng.integers(1, 900)),
            "split": ("train", "val", "test")[i % 3],
        }
        for source, number in sizes.items()
        for i in range(number)
        for model in models
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.fixture
def others(tmp_path: Path) -> Path:
    return written(tmp_path / "others é.parquet", {"cup": 60, "free": 40, "small": 5}, ["m"])


@pytest.fixture
def alpaca(tmp_path: Path) -> Path:
    sizes = {"alpaca_eval/a": 60, "alpaca_eval/b": 30, "other": 9}
    return written(tmp_path / "alpaca.parquet", sizes, ["one", "two"])


def test_other_traffic_is_a_group_for_each_source_and_model(others) -> None:
    trial = traffics.elsewhere(others)
    assert [len(g) for g in trial.groups] == [60, 40]  # five rows say too little
    assert [len({trial.examples[i].id.split("-")[0] for i in g}) for g in trial.groups] == [1, 1]


def test_a_prompt_is_held_out_of_one_fold_and_from_all_models(alpaca) -> None:
    folds = traffics.alpacaeval_folds(alpaca, ShareGpt((), (), "made up"))
    tested = [{e.prompt for e in fold.trials[0].examples} for fold in folds]
    assert sum(map(len, tested)) == len(set.union(*tested)) > 45
    for fold, test in zip(folds, tested, strict=True):
        held = {e.prompt for e in fold.validation}
        trained = {e.prompt for e in fold.train}
        assert len(held | trained | test) == len(held) + len(trained) + len(test) == 90
        assert len(fold.trials[0].examples) == 2 * len(test)
        assert [len(group) for group in fold.trials[2].groups] == [len(test)] * 2
        assert {e.prompt for e in fold.plain} == trained
