"""The event log: whole lines, whatever cut the last one off."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest

from drift.events import Event, EventLog, read_events

EVENT = Event(
    kind="state", served_model="m", ranker="r", version="1", at=5.0, outcome=400, previous="ok",
    state="degraded", reasons=("tau-b fell à zéro",), tau=0.1, tau_low=0.0, tau_high=0.2,
    tau_outcomes=200, since_change=200, reference_tau=0.4, chart=9.0, chart_limit=8.0,
    unscored_share=0.0, censored_share=0.0, message="été",
)  # fmt: skip
EVENTS = [dataclasses.replace(EVENT, outcome=i) for i in range(4)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "les événements" / "events.jsonl"


def test_what_is_appended_comes_back(path):
    assert list(read_events(path)) == []
    EventLog(path).append([], 1.0)
    assert not path.exists()
    EventLog(path).append(EVENTS[:2], 1.0)
    EventLog(path).append(EVENTS[2:], 2.0)
    assert list(read_events(path)) == EVENTS
    assert [json.loads(line)["logged"] for line in path.read_text().splitlines()] == [1, 1, 2, 2]


def test_a_write_that_takes_a_part_is_continued(path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, bytes(data)[:7]))
    EventLog(path).append(EVENTS, 1.0)
    assert list(read_events(path)) == EVENTS


def _whole(path) -> bytes:
    EventLog(path).append(EVENTS[:2], 1.0)
    return path.read_bytes()


def test_a_cut_line_hurts_no_later_event(path, caplog):
    whole = _whole(path)
    first = whole.index(b"\n") + 1
    inside_a_character = whole.rindex("é".encode()) + 1
    for cut in (first + 1, first + 40, inside_a_character, len(whole) - 2):
        caplog.clear()
        path.write_bytes(whole[:cut])
        assert list(read_events(path)) == EVENTS[:1]
        assert not caplog.records  # it might just be being written
        EventLog(path).append(EVENTS[2:], 2.0)
        assert list(read_events(path)) == [EVENTS[0], *EVENTS[2:]]
        assert "1 lines" in caplog.text
        assert "line 2" in caplog.text


def test_a_line_that_lacks_its_end_alone_is_whole(path):
    path.write_bytes(_whole(path)[:-1])
    EventLog(path).append(EVENTS[2:], 2.0)
    assert list(read_events(path)) == EVENTS


@pytest.mark.parametrize(
    "line", ["{}", "[1]", "null", "no JSON", json.dumps({**EVENT.as_dict(), "state": "sleepy"})]
)
def test_lines_that_are_no_events_are_passed_over_and_counted(path, line, caplog):
    whole = _whole(path).decode()
    path.write_text(f"{line}\n\n{whole}")
    assert list(read_events(path)) == EVENTS[:2]
    assert "line 1" in caplog.text
