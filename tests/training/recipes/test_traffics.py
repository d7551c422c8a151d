from __future__ import annotations

import numpy as np
import pytest

from ranker.types import FinishReason
from training.recipes import traffics
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


@pytest.fixture
def others(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    sizes = {"cup": 60, "free": 40, "small": 5}
    rows = [
        {
            "id": f"{source}-{i}",
            "source": source,
            "model": "m",
            "prompt": f"{source} {i}",
            "prompt_tokens": 2,
            "response_tokens": int(rng.integers(1, 900)),
            "split": ("train", "val", "test")[i % 3],
        }
        for source, number in sizes.items()
        for i in range(number)
    ]
    path = tmp_path / "others é.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_other_traffic_is_a_group_for_each_source_and_model(others) -> None:
    trial = traffics.elsewhere(others)
    assert [len(g) for g in trial.groups] == [60, 40]  # five rows say too little
    assert [len({trial.examples[i].id.split("-")[0] for i in g}) for g in trial.groups] == [1, 1]
