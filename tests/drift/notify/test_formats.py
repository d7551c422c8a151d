"""Payloads against what their receivers require."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from drift.notify.formats import FORMATS, alertmanager, generic, slack
from drift.notify.notice import Board

NOW = 1_700_000_600.0
LINK = "https://drift.example/"

# Of Alertmanager's api/v2/openapi.yaml, definitions postableAlert, alert and labelSet.
REQUIRED, PROPERTIES = {"labels"}, {"labels", "annotations", "startsAt", "endsAt", "generatorURL"}


def _notices(entry, *states, **others):
    board, at = Board(), 1_700_000_000.0
    return [
        notice
        for i, (before, after) in enumerate(pairwise(states))
        for notice in board.take(entry(before, after, at + 60 * i, **others))
    ]


def _check_alerts(alerts):
    assert alerts
    for alert in alerts:
        assert set(alert) >= REQUIRED
        assert set(alert) <= PROPERTIES
        for labels in (alert["labels"], alert["annotations"]):
            # Label names after Prometheus's data model; an empty value is no label at all.
            assert all(name.isidentifier() and name.isascii() for name in labels)
            assert all(isinstance(value, str) and value for value in labels.values())
        starts, ends = (datetime.fromisoformat(alert[k]) for k in ("startsAt", "endsAt"))
        assert starts.tzinfo is not None
        assert starts <= ends


def test_alertmanager_gets_what_its_openapi_asks_for(entry):
    firing, worse, resolved = _notices(
        entry, "ok", "warn", "degraded", "ok", lane="chat", tenant="acme"
    )
    (first,) = alertmanager(firing, NOW, LINK, 60.0)
    both = alertmanager(worse, NOW, LINK, 60.0)
    (over,) = alertmanager(resolved, NOW, LINK, 60.0)
    for alerts in ([first], both, [over]):
        _check_alerts(alerts)
    assert first["labels"] == {
        "alertname": "ShortfirstDrift",
        "service": "shortfirst",
        "severity": "warning",
        "served_model": "llama <3>",
        "slice": "tenant acme, lane chat",
        "lane": "chat",
        "tenant": "acme",
    }
    assert first["startsAt"] == "2023-11-14T22:13:20.000Z"
    assert datetime.fromisoformat(first["endsAt"]).timestamp() == NOW + 240
    # A change of severity is another alert: the old one ends, under the labels that it had.
    assert both[0]["labels"] == {**first["labels"], "severity": "critical"}
    assert both[1]["labels"] == first["labels"]
    assert datetime.fromisoformat(both[1]["endsAt"]).timestamp() == NOW
    assert over["labels"] == both[0]["labels"]
    assert datetime.fromisoformat(over["endsAt"]).timestamp() == NOW
    assert first["annotations"]["tau"] == "0.10 (0.02 to 0.18)"
    assert first["annotations"]["action"] == "retrain"


def test_a_start_in_the_future_of_this_clock_is_now(entry):
    (firing,) = _notices(entry, "ok", "degraded")
    (alert,) = alertmanager(firing, firing.started - 100.0, "", 60.0)
    _check_alerts([alert])
    assert "generatorURL" not in alert


def test_slack_gets_blocks_within_its_limits(entry):
    (firing,) = _notices(entry, "ok", "degraded", reasons=("x" * 5000,), lane="batch", tenant="")
    message = slack(firing, NOW, LINK, 60.0)
    assert set(message) == {"text", "attachments"}
    (attachment,) = message["attachments"]
    assert len(attachment["blocks"]) <= 50
    kinds = [block["type"] for block in attachment["blocks"]]
    assert kinds == ["header", "section", "section", "section", "section"]
    header = attachment["blocks"][0]["text"]
    assert header["type"] == "plain_text"
    assert len(header["text"]) <= 150
    for block in attachment["blocks"][1:]:
        for text in [block["text"]] if "text" in block else block["fields"]:
            assert text["type"] == "mrkdwn"
            assert 0 < len(text["text"]) <= (3000 if "text" in block else 2000)
        assert len(block.get("fields", ())) <= 10
    assert "llama &lt;3&gt;" in message["text"]
    assert "lane batch" in message["text"]


def test_slack_is_told_of_the_end(entry):
    _, over = _notices(entry, "ok", "degraded", "ok")
    message = slack(over, NOW, "", 60.0)
    assert message["text"].startswith(":white_check_mark:")
    assert message["attachments"][0]["color"] == "#2e7d32"


def test_json_has_everything_and_an_id(entry):
    firing, over = (generic(n, NOW, LINK, 60.0) for n in _notices(entry, "ok", "degraded", "ok"))
    assert firing["format"] == 1
    assert (firing["status"], firing["state"], firing["before"]) == ("firing", "degraded", "ok")
    assert (over["status"], over["started_at"]) == ("resolved", firing["started_at"])
    assert firing["id"] != over["id"]
    assert firing["details"]["tau"] == 0.1
    assert datetime.fromisoformat(firing["at"]) == datetime.fromtimestamp(1_700_000_000, UTC)


@pytest.mark.parametrize("kind", FORMATS)
def test_what_was_done_is_told_where_it_has_a_place(entry, kind):
    (info,) = Board().take(entry("7", "8", kind="promotion", gate="passed", actor="eva"))
    made = FORMATS[kind](info, NOW, "", 60.0)
    if kind == "alertmanager":
        assert made is None
    else:
        assert "passed" in json.dumps(made)
        assert "eva" in json.dumps(made)
