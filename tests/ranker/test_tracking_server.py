"""Through a tracking server that keeps the artifacts too, and out again over HTTP."""

from __future__ import annotations

import json
import urllib.request
from datetime import UTC, datetime

import pytest

pytest.importorskip("mlflow")

from ranker.records import DatasetRecord, RunRecord
from ranker.registry import Registry, RegistryError
from tests.ranker.mlflow_parts import mlflow
from training.gate import (
    SEEN_FILE,
    BurstConfig,
    GateConfig,
    history,
    judge,
    promote,
    rollback,
    seen,
)
from training.sources import Data

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
NOW = datetime(2026, 1, 2, tzinfo=UTC)
QUICK = GateConfig(resamples=50, bursts=BurstConfig(bursts=2, requests=40))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("serveur é")


@pytest.fixture(scope="module")
def server(home):
    arguments = ["server", "--backend-store-uri", f"sqlite:///{home}/mlflow.db",
                 "--artifacts-destination", str(home / "artifacts"), "--serve-artifacts",
                 "--workers", "1"]  # fmt: skip
    with mlflow(arguments, home / "server.log") as address:
        yield address


@pytest.fixture(scope="module")
def registered(server, home, ranker, examples):
    """The same ranker twice, so that the gate has two to compare."""
    registry = Registry(server, home / "not used")
    data = Data("toys", "made up", tuple(examples))
    record = RunRecord(
        "over http", "a run",
        tags={"served_model": "toy", "validation_digest": data.digest("validation")},
        datasets=(DatasetRecord("toys", "training", "made up", "d1", {"output_tokens": [1, 2]}),),
    )  # fmt: skip
    for _ in range(2):
        with registry.start(record) as log:
            log.step("training.loss", 0.5, 0)
            log.file(SEEN_FILE, seen(examples))
            log.model(ranker, "# card")
        registry.register(log.run_id, "toys", {"served_model": "toy"})
    return registry


def test_a_ranker_goes_to_the_server_and_comes_back(registered, home, ranker, examples):
    prompts = [e.prompt for e in examples[:10]]
    loaded = registered.load("models:/toys/2")
    assert (loaded.name, loaded.version) == ("toys", "2")
    expected = [f.quantiles for f in ranker.forecast(prompts)]
    assert [f.quantiles for f in loaded.forecast(prompts)] == expected
    assert registered.versions("toys") == ["2", "1"]
    assert not (home / "not used").exists()  # the server has places of its own
    assert any((home / "artifacts").rglob("ranker.json"))


def test_the_gate_and_the_way_back_work_over_http(registered, examples):
    data = Data("toys", "made up", tuple(examples))
    for version in ("1", "2"):
        verdict = judge(registered, "toys", version, data, config=QUICK)
        promote(registered, verdict, by="ann", now=NOW)
    assert verdict.rows == 200
    assert verdict.checks[0].difference == 0.0
    assert registered.load("models:/toys@champion").version == "2"
    assert rollback(registered, "toys", by="ann", now=NOW).version == "1"
    assert registered.load("models:/toys@champion").version == "1"
    assert [m.kind for m in history(registered.tags("toys")).moves] == [
        "promote",
        "promote",
        "rollback",
    ]
    path = "gate/2026-01-02T000000+0000-passed.json"
    assert json.loads(registered.attached("toys", "2", path))["passed"]


def test_mlflow_models_serve_answers(registered, server, home, ranker):
    arguments = ["models", "serve", "-m", "models:/toys/1", "--env-manager", "local"]
    prompts = ["essay about the river", "date of the trade"]
    body = {
        "dataframe_split": {"columns": ["prompt"], "data": [[p] for p in prompts]},
        "params": {"served_model": "nobody-knows"},
    }
    with mlflow(arguments, home / "serve.log", MLFLOW_TRACKING_URI=server) as address:
        request = urllib.request.Request(
            f"{address}/invocations",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            rows = json.load(response)["predictions"]
    for row, forecast in zip(rows, ranker.forecast(prompts), strict=True):
        assert row["score"] == pytest.approx(forecast.score)
        assert row["p90"] == pytest.approx(forecast.quantile(0.9))
        assert row["pooled"] is True


def test_a_server_that_is_not_there_is_said_at_once(tmp_path):
    with pytest.raises(RegistryError, match="no server answers"):
        Registry("http://127.0.0.1:9", tmp_path)
