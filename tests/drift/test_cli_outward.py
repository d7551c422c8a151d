"""``shortfirst drift history`` with a real registry, and reports of windows."""

from __future__ import annotations

import json
import uuid
from contextlib import closing
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from drift.entry import Entry
from drift.history import History
from drift.outcomes import OutcomeStore
from serving.cli.drift import app
from serving.paths import Home


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SHORTFIRST_HOME", str(tmp_path / "dossier d'été"))
    return Home.resolve()


def _call(*arguments):
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result


@pytest.mark.slow
def test_history_knows_the_promotions_of_the_registry(home):
    from ranker.registry import Registry
    from training.gate.history import Promotion

    with closing(History(home.history)) as history:
        state = Entry(
            at=datetime(2026, 11, 1, tzinfo=UTC).timestamp(), kind="state", actor="drift monitor",
            served_model="m", before="ok", after="degraded", ranker="length-ranker", version="1",
            reasons=("tau-b 0.1 is below its reference",),
        )  # fmt: skip
        history.add([state], 0.0)
    assert [e["kind"] for e in json.loads(_call("history", "--json").stdout)] == ["state"]
    registry = Registry(home.mlflow_uri, home.artifacts)
    registry._client.create_registered_model("length-ranker")
    move = Promotion(
        1, "length-ranker", "champion", "2", "1", "promote", "eva", "2026-11-02T10:00:00+00:00",
        "tau-b .31 over .22",
    )  # fmt: skip
    registry.set_tag("length-ranker", move.key, move.text)
    told = json.loads(_call("history", "--json").stdout)
    assert [(e["kind"], e["actor"], e["before"], e["after"]) for e in told] == [
        ("state", "drift monitor", "ok", "degraded"),
        ("promotion", "eva", "1", "2"),
    ]
    assert told[1]["gate"] == "tau-b .31 over .22"
    assert told[1]["served_model"] == "m"
    assert "eva" in _call("history").stdout
    assert len(json.loads(_call("history", "--json", "--no-promotions").stdout)) == 1
    only = json.loads(_call("history", "--json", "--kind", "promotion").stdout)
    assert [e["actor"] for e in only] == ["eva"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_timer_adds_the_windows_that_are_new(home, stream, tmp_path):
    with closing(OutcomeStore(home.outcomes)) as store:
        store.store(stream(900, 0.4, 1))
    space = tmp_path / "espace"
    arguments = (
        "report",
        "--workspace",
        str(space),
        "--window-seconds",
        "300",
        "--last",
        "100",
        "--json",
    )
    assert json.loads(_call(*arguments).stdout)["workspace"]["added"] == 2
    with closing(OutcomeStore(home.outcomes)) as store:
        store.store(stream(300, 0.4, 2, start=900))
    written = json.loads(_call(*arguments, "--keep", "2").stdout)["workspace"]
    assert (written["added"], written["removed"], written["kept"]) == (1, 1, 2)
    uuid.UUID(written["project"])
