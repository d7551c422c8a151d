from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from drift.config import MonitorConfig
from drift.detectors.concordance_cusum import ChartConfig
from drift.sink import MonitoredStore
from serving.cli.console import UserError
from serving.cli.drift import app
from serving.paths import Home


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SHORTFIRST_HOME", str(tmp_path / "dossier d'été"))
    return Home.resolve()


@pytest.fixture
def reported(home, stream):
    config = MonitorConfig(chart=ChartConfig(streams=24, length=4096))
    sink = MonitoredStore.open(home.outcomes, home.events, lambda: 0.0, config)
    sink.store(stream(900, 0.36, 1) + stream(600, 0.0, 2, start=900))
    sink.close()
    return home


def _call(*arguments):
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_status_tells_state_and_numbers(reported):
    (row,) = json.loads(_call("status", "--json").stdout)
    assert (row["served_model"], row["state"]) == ("m", "fcfs")
    assert row["total_outcomes"] == 1500
    assert abs(row["tau"]) < 0.1 < row["reference_tau"]
    assert row["efficiency_e2el"] < 0.25
    assert "fcfs" in _call("status").stdout


def test_events_can_be_narrowed_to_alerts(reported):
    every = json.loads(_call("events", "--json").stdout)
    alerts = json.loads(_call("events", "--alerts", "--json").stdout)
    assert [e["kind"] for e in every][:2] == ["reference", "reference"]
    assert alerts == [e for e in every if e["alert"]]
    assert alerts
    assert "degraded" in _call("events", "--last", "3").stdout


def test_report_writes_one_page(reported):
    written = json.loads(_call("report", "--json").stdout)
    assert written == {"report": str(reported.reports / "drift.html")}
    assert "Concordance chart" in (reported.reports / "drift.html").read_text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_report_with_evidently(reported, tmp_path):
    out = tmp_path / "p.html"
    written = json.loads(_call("report", "--evidently", "--json", "--out", str(out)).stdout)
    assert set(written["columns"]) == {"score", "output_tokens", "prompt_tokens"}
    assert not written["columns"]["score"]["drifted"]  # scores are as before: order was lost
    assert (tmp_path / "p.evidently.html").stat().st_size > 100_000


def test_mistakes_are_one_line(home, reported):
    with pytest.raises(ValueError, match="nothing has been reported"):
        _call("status", "--outcomes", str(home.root / "none.db"))
    with pytest.raises(UserError, match="there are: m"):
        _call("report", "--served-model", "other")


def test_no_events_is_no_error(home):
    result = _call("events")
    assert result.exit_code == 0
    assert _call("events", "--json").stdout.strip() == "[]"
