from __future__ import annotations

import json
import logging
import subprocess
import sys
from datetime import UTC, datetime

import pytest

pytest.importorskip("mlflow")

from ranker import artifact
from ranker.records import DatasetRecord, RunRecord
from ranker.registry import Registry, RegistryError
from training.promote import history, promote

RECORD = RunRecord(
    experiment="tests",
    name="a run",
    params={"seed": 3},
    metrics={"validation.tau": 0.4, "validation.tau_high": 0.5, "undefined": float("nan")},
    curves={"training.loss": [0.3, 0.2, 0.1]},
    tags={"by": "tester", "validation_digest": "abc"},
    datasets=(DatasetRecord("toy", "training", "made up", "d1", {"output_tokens": [1, 2]}),),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("état des lieux")


@pytest.fixture(scope="module")
def registry(home):
    return Registry(f"sqlite:///{home}/deep/mlflow.db", home / "artefacts é")


@pytest.fixture(scope="module")
def run_id(registry, ranker):
    return registry.log_run(RECORD, ranker, "# card")


def test_a_registered_ranker_comes_back_by_alias_version_and_folder(
    registry, run_id, ranker, examples, tmp_path
):
    version = registry.register(run_id, "by-alias", {"served_model": "toy"})
    assert registry.resolve("by-alias", "champion") is None
    registry.set_alias("by-alias", "champion", version)
    assert registry.resolve("by-alias", "champion") == version
    prompts = [e.prompt for e in examples[:20]]
    expected = [f.quantiles for f in ranker.forecast(prompts)]
    for uri in ("models:/by-alias@champion", f"models:/by-alias/{version}"):
        loaded = registry.load(uri)
        assert (loaded.name, loaded.version, loaded.served_model) == ("by-alias", version, "toy")
        assert [f.quantiles for f in loaded.forecast(prompts)] == expected
    assert registry.load(str(artifact.save(ranker, tmp_path / "plain"))).served_model == "toy"


def test_the_run_holds_what_was_recorded_and_no_prompt(registry, run_id, home, examples):
    run = registry._client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params["seed"] == "3"
    assert run.data.metrics["validation.tau"] == pytest.approx(0.4)
    assert "undefined" not in run.data.metrics
    curve = registry._client.get_metric_history(run_id, "training.loss")
    assert sorted((m.step, m.value) for m in curve) == [(0, 0.3), (1, 0.2), (2, 0.1)]
    (dataset,) = run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("toy", "d1")
    stored = b"".join(p.read_bytes() for p in home.rglob("*") if p.is_file())
    assert all(e.prompt.encode() not in stored for e in examples)


def test_other_tools_can_load_it(registry, run_id, ranker):
    import mlflow.pyfunc
    import pandas as pd

    version = registry.register(run_id, "generic")
    folder = registry._client.get_model_version_download_uri("generic", version)
    model = mlflow.pyfunc.load_model(folder)
    table = model.predict(pd.DataFrame({"prompt": ["essay about the river"]}))
    (forecast,) = ranker.forecast(["essay about the river"])
    assert table["score"][0] == pytest.approx(forecast.score)
    assert table["p90"][0] == pytest.approx(forecast.quantile(0.9))
    assert model.metadata.signature is not None


def test_promotion_moves_the_alias_and_leaves_a_history(registry, run_id):
    first, second = (registry.register(run_id, "promoted") for _ in range(2))
    for day, version in ((1, first), (2, second), (3, second), (4, first)):
        promote(registry, "promoted", version, by="ann", now=datetime(2026, 1, day, tzinfo=UTC))
    moves = history(registry.tags("promoted"))
    assert [(m.version, m.previous) for m in moves] == [
        (first, None),
        (second, first),
        (first, second),
    ]
    assert all(m.by == "ann" for m in moves)
    assert registry.resolve("promoted", "champion") == first
    assert json.loads(json.dumps(registry.run_tags("promoted", first)))["by"] == "tester"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("models:/nobody@champion", "no such alias"),
        ("models:/nobody/3", "not found"),
        ("models:/nobody", "must read"),
        ("models:/nobody@champion/3", "must read"),
        ("models:/nobody/v3", "must read"),
        ("/nowhere", "not a ranker"),
    ],
)
def test_what_is_not_there_is_named(registry, uri, message):
    with pytest.raises(ValueError, match=message):
        registry.load(uri)


def test_unknown_names_and_versions(registry, run_id):
    assert registry.versions("nobody") == []
    version = registry.register(run_id, "known")
    for call in (
        lambda: registry.tags("nobody"),
        lambda: registry.metrics("known", "99"),
        lambda: registry.set_alias("known", "champion", "99"),
        lambda: registry.set_alias("known", "latest", version),
    ):
        with pytest.raises(RegistryError):
            call()


def test_a_failed_run_says_so(registry, ranker, monkeypatch):
    monkeypatch.setattr(artifact, "save", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        registry.log_run(RECORD, ranker, "")
    monkeypatch.undo()
    experiment = registry._client.get_experiment_by_name("tests").experiment_id
    statuses = [r.info.status for r in registry._client.search_runs([experiment])]
    assert statuses.count("FAILED") == 1


def test_the_level_of_other_loggers_is_left_alone(registry):
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    registry.versions("known")
    assert logging.getLogger("mlflow").level == logging.WARNING


def test_a_server_that_loads_a_ranker_loads_no_torch(registry, run_id, home, tmp_path):
    version = registry.register(run_id, "light")
    code = (
        "import sys; from pathlib import Path; from ranker.registry import Registry;"
        "r = Registry(sys.argv[1], Path(sys.argv[2])).load(sys.argv[3]);"
        "r.forecast(['essay']); print('torch' in sys.modules, r.version)"
    )
    out = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            registry.tracking_uri,
            str(registry.artifact_root),
            f"models:/light/{version}",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert out.stdout.split() == ["False", version]
    assert out.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_is_none(tmp_path):
    with pytest.raises(RegistryError, match="tracking_uri 'nosuch:thing'"):
        Registry("nosuch:thing", tmp_path)


def test_a_file_that_is_no_database_is_named_without_sql(tmp_path):
    (tmp_path / "mlflow.db").write_bytes(b"garbage " * 100)
    with pytest.raises(RegistryError, match="not a database") as caught:
        Registry(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path / "artifacts")
    assert "SELECT" not in str(caught.value)
