"""From outcomes to a webhook, and on after a restart: the parts as the rank service wires them."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from drift.config import MonitorConfig
from drift.events import read_events
from drift.history import read_history
from drift.notify.config import RetryConfig, Webhook
from serving.cli.drift import app
from serving.paths import Home
from serving.telling import TellingConfig, telling

NOW = 1_700_002_000.0
MONITOR = MonitorConfig(
    chart=replace(MonitorConfig().chart, streams=24, length=4096), reference_most=800
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SHORTFIRST_HOME", str(tmp_path / "dossier d'été"))
    return Home.resolve()


@pytest.fixture
def run(home, receiver):
    def _run(outcomes=(), url=receiver.url, now=NOW):
        hook = Webhook(url=url, name="hook", retry=RetryConfig(2, 0.0, 0.0))
        config = TellingConfig(
            home.outcomes, home.events, home.history, (hook,), MONITOR, close_s=60.0
        )
        with telling(config, {}, lambda: now, random.Random(1)) as running:
            for i in range(0, len(outcomes), 50):
                running.sink.store(outcomes[i : i + 50])
                running.sink.work.drain()  # as when traffic takes its time
        return running.notifier.deliveries()[0]

    return _run


def _call(*arguments):
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


@pytest.mark.slow
def test_a_shift_is_told_everywhere_and_a_restart_repeats_nothing(run, home, receiver, stream):
    run(stream(700, 0.36, 1) + stream(400, 0.0, 2, start=700))
    moves = [e for e in read_events(home.events) if e.kind == "state"]
    assert [e.state for e in moves][-1] in ("degraded", "fcfs")
    entries = read_history(home.history, kinds=["state"])
    assert [(e.before, e.after, e.at) for e in entries] == [
        (e.previous, e.state, e.at) for e in moves
    ]
    told = [receiver.next().json for _ in moves]
    assert [(t["status"], t["state"]) for t in told] == [("firing", e.state) for e in moves]
    assert told[-1]["reasons"]
    assert "retrain" in told[-1]["advice"]
    assert not receiver.requests.qsize()

    again = run()
    assert set(again.results) <= {"duplicate"}
    assert read_history(home.history, kinds=["state"]) == entries
    assert again.firing == 1

    shown = json.loads(_call("history", "--json", "--kind", "state").stdout)
    assert [entry["after"] for entry in shown] == [e.state for e in moves]
    assert "drift monitor" in _call("history").stdout
    assert len(json.loads(_call("history", "--json", "--last", "1").stdout)) == 1
    assert json.loads(_call("history", "--json", "--served-model", "other").stdout) == []


@pytest.mark.slow
def test_an_alert_of_long_ago_is_over_after_a_restart(run, home, receiver, stream):
    run(stream(700, 0.36, 1) + stream(400, 0.0, 2, start=700))
    before = read_history(home.history, kinds=["state"])
    again = run(now=NOW + 100_000.0)
    assert again.firing == 0
    *_, last = read_history(home.history, kinds=["state"])
    assert (last.before, last.after, last.cause) == (before[-1].after, "ok", "closed")
    assert [receiver.next().json["status"] for _ in before] == ["firing"] * len(before)
    assert run(now=NOW + 100_060.0).firing == 0
    assert len(read_history(home.history, kinds=["state"])) == len(before) + 1


@pytest.mark.slow
def test_a_dead_receiver_fails_no_report(run, home, free_port, stream):
    outcomes = stream(700, 0.36, 1) + stream(400, 0.0, 2, start=700)
    delivery = run(outcomes, url=f"http://127.0.0.1:{free_port}/")
    assert delivery.results["exhausted"] >= 1
    assert read_history(home.history, kinds=["state"])


@pytest.mark.slow
def test_what_a_crash_left_untold_is_told_by_the_next_start(run, home, receiver, stream):
    run(stream(700, 0.36, 1) + stream(400, 0.0, 2, start=700))
    entries = read_history(home.history, kinds=["state"])
    for _ in entries:
        receiver.next()
    home.history.unlink()  # all outcomes are on disk, and no word of them
    run()
    assert [receiver.next().json["state"] for _ in entries] == [e.after for e in entries]
    assert read_history(home.history, kinds=["state"]) == entries


def test_notify_tries_a_webhook(home, receiver, monkeypatch):
    monkeypatch.setenv("HOOK", receiver.url)
    listed = json.loads(_call("notify", "--webhook", "slack=env:HOOK", "--json").stdout)
    assert listed == [{"name": "slack", "kind": "slack", "level": "warn"}]
    assert receiver.requests.empty()
    home.root.mkdir()
    home.webhooks.write_text('[[webhook]]\nurl = "env:HOOK"\nlevel = "fcfs"\n')
    result = _call("notify", "--test", "--webhook", "slack=env:HOOK", "--json")
    assert result.exit_code == 0
    assert [row["delivered"] for row in json.loads(result.stdout)] == [True, True]
    sent = [receiver.next().json for _ in range(4)]
    assert ":rotating_light:" in sent[0]["text"]
    assert ":white_check_mark:" in sent[1]["text"]
    assert [s["status"] for s in sent[2:]] == ["firing", "resolved"]
    receiver.answers = [(404, {}), (404, {})]
    failed = _call("notify", "--test")
    assert failed.exit_code == 1
    assert "HTTP 404: said so" in failed.stdout
    assert "geheim" not in failed.output


@pytest.mark.parametrize(
    ("text", "said"),
    [("[[webhook]]\nurl = 3\n", "url must be given"), ("not TOML", "is no TOML")],
)
def test_mistakes_in_the_file_are_one_line(home, tmp_path, text, said):
    file = tmp_path / "hooks.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=said):
        _call("notify", "--webhooks", str(file))
    with pytest.raises(Exception, match="no webhook"):
        _call("notify")


def test_assets_are_written(tmp_path):
    written = json.loads(_call("assets", str(tmp_path / "out"), "--json").stdout)
    assert set(written) == {"alerts.yml", "grafana.json"}
    assert json.loads((tmp_path / "out" / "grafana.json").read_text())["panels"]
