from __future__ import annotations

import json
import logging
import subprocess
import sys
from contextlib import ExitStack

import pytest

pytest.importorskip("mlflow")

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from ranker import artifact
from ranker.artifact import ArtifactError
from ranker.pyfunc import PyFunc
from ranker.quiet import quiet
from ranker.records import DatasetRecord, RunRecord
from ranker.registry import Registry, RegistryError
from ranker.registry.flavour import ranker_folder

RECORD = RunRecord(
    experiment="tests",
    name="a run",
    params={"seed": 3},
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
def client(registry):
    return MlflowClient(tracking_uri=registry.tracking_uri)


@pytest.fixture(scope="module")
def run_id(registry, ranker):
    with registry.start(RECORD) as log:
        for step, loss in enumerate((0.3, 0.2, 0.1)):
            log.step("training.loss", loss, step)
        log.metrics({"validation.tau": 0.4, "undefined": float("nan")})
        log.file("plots/dot.png", b"png")
        log.model(ranker, "# card")
    return log.run_id


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


def test_the_run_holds_what_was_recorded_and_no_prompt(client, run_id, home, examples):
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params["seed"] == "3"
    assert run.data.metrics["validation.tau"] == pytest.approx(0.4)
    assert "undefined" not in run.data.metrics
    curve = client.get_metric_history(run_id, "training.loss")
    assert sorted((m.step, m.value) for m in curve) == [(0, 0.3), (1, 0.2), (2, 0.1)]
    (dataset,) = run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("toy", "d1")
    stored = b"".join(p.read_bytes() for p in home.rglob("*") if p.is_file())
    assert all(e.prompt.encode() not in stored for e in examples)


def test_other_tools_can_load_it(registry, client, run_id, ranker):
    import mlflow.pyfunc
    import pandas as pd

    version = registry.register(run_id, "generic")
    folder = client.get_model_version_download_uri("generic", version)
    model = mlflow.pyfunc.load_model(folder)
    table = model.predict(pd.DataFrame({"prompt": ["essay about the river"]}))
    (forecast,) = ranker.forecast(["essay about the river"])
    assert table["score"][0] == pytest.approx(forecast.score)
    assert table["p90"][0] == pytest.approx(forecast.quantile(0.9))
    assert not table["pooled"][0]
    with pytest.raises(ValueError, match="prompt: row 1 holds no text"):
        PyFunc(ranker).predict(pd.DataFrame({"prompt": ["essay", None]}))
    other = model.predict(pd.DataFrame({"prompt": ["essay"]}), params={"served_model": "another"})
    assert other["pooled"][0]


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


def break_off(log, steps, error):
    with log:
        for step in range(steps):
            log.step("training.loss", 1.0 / (step + 1), step)
        raise error


@pytest.mark.parametrize(
    ("error", "status"),
    [(OSError("disk full"), "FAILED"), (KeyboardInterrupt(), "KILLED")],
)
def test_a_run_that_breaks_off_says_so_and_keeps_its_curve(registry, client, error, status):
    log = registry.start(RECORD)
    with pytest.raises(type(error)):
        break_off(log, 1500, error)
    assert client.get_run(log.run_id).info.status == status
    assert len(client.get_metric_history(log.run_id, "training.loss")) == 1500


def test_metrics_are_there_while_the_run_goes_on(registry, client):
    seconds = iter(range(100))
    with registry.start(RECORD, clock=lambda: float(next(seconds))) as log:
        log.step("training.loss", 0.5, 0)
        log.step("training.loss", 0.25, 1)
        assert client.get_run(log.run_id).info.status == "RUNNING"
        assert client.get_run(log.run_id).data.metrics["training.loss"] == 0.25


def test_what_could_not_be_written_is_written_later(registry, client, monkeypatch):
    seconds = iter(range(100))
    with registry.start(RECORD, clock=lambda: float(next(seconds))) as log:
        away = MlflowException("the server is away")
        monkeypatch.setattr(MlflowClient, "log_batch", lambda *_, **__: (_ for _ in ()).throw(away))
        log.step("training.loss", 0.5, 0)
        monkeypatch.undo()
    (point,) = client.get_metric_history(log.run_id, "training.loss")
    assert point.value == 0.5


def test_a_killed_run_goes_on(registry, client):
    log = registry.start(RECORD)
    with pytest.raises(KeyboardInterrupt):
        break_off(log, 1, KeyboardInterrupt())
    with registry.start(RECORD, log.run_id) as again:
        again.step("training.loss", 0.25, 1)
    assert again.run_id == log.run_id
    assert client.get_run(log.run_id).info.status == "FINISHED"
    assert len(client.get_metric_history(log.run_id, "training.loss")) == 2
    assert registry.start(RECORD, "0" * 32).run_id != "0" * 32  # a run of another registry


def test_a_run_says_what_it_took_of_the_machine(run_id, client):
    metrics = client.get_run(run_id).data.metrics
    assert metrics["system/process_memory_megabytes"] > 1.0
    assert 0.0 < metrics["system/system_memory_usage_percentage"] <= 100.0
    steps = [m.step for m in client.get_metric_history(run_id, "system/cpu_utilization_percentage")]
    assert steps[0] == 0
    assert len(steps) >= 2


def test_the_card_is_the_description_and_files_are_found_by_version(registry, run_id, client):
    version = registry.register(run_id, "described")
    assert client.get_model_version("described", version).description == "# card"
    assert registry.attached("described", version, "README.md") == b"# card"
    assert registry.attached("described", version, "plots/dot.png") == b"png"
    assert registry.attached("described", version, "nothing.png") is None
    registry.attach("described", version, "gate/verdict.json", {"passed": True})
    assert json.loads(registry.attached("described", version, "gate/verdict.json")) == {
        "passed": True
    }


def test_the_level_of_other_loggers_is_left_alone(registry):
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    registry.versions("known")
    assert logging.getLogger("mlflow").level == logging.WARNING


def test_of_several_threads_the_last_one_puts_the_level_back():
    logger = logging.getLogger("mlflow")
    logger.setLevel(logging.WARNING)
    with ExitStack() as one, ExitStack() as other:
        one.enter_context(quiet())
        other.enter_context(quiet())
        one.close()
        assert logger.level == logging.ERROR
        other.close()
        assert logger.level == logging.WARNING


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


@pytest.mark.parametrize(
    "described",
    [
        None,
        "[",
        "flavors: {}",
        "flavors: {python_function: {data: ../elsewhere}}",
        "flavors: {python_function: {data: /elsewhere}}",
    ],
)
def test_a_model_that_leads_elsewhere_is_refused(tmp_path, described):
    if described is not None:
        (tmp_path / "MLmodel").write_text(described)
    with pytest.raises(ArtifactError, match=r"MLmodel: (no ranker|leads out of)"):
        ranker_folder(tmp_path)


def test_a_password_in_an_address_is_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(RegistryError, match=r"//127\.0\.0\.1:9/path") as caught:
        Registry("http://ann:secret@127.0.0.1:9/path", tmp_path)
    assert "secret" not in str(caught.value)


def test_an_address_that_is_none(tmp_path):
    with pytest.raises(RegistryError, match="tracking_uri 'nosuch:thing'"):
        Registry("nosuch:thing", tmp_path)


def test_a_file_that_is_no_database_is_named_without_sql(tmp_path):
    (tmp_path / "mlflow.db").write_bytes(b"garbage " * 100)
    with pytest.raises(RegistryError, match="not a database") as caught:
        Registry(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path / "artifacts")
    assert "SELECT" not in str(caught.value)
