"""What others than the monitor did: in the log, in the history, and at a real webhook's queue."""

from __future__ import annotations

import json
import random

from drift.announce import Announcer
from drift.entry import Entry
from drift.events import EventLog, read_events
from drift.history import History, read_history
from drift.notify.notifier import Notifier
from drift.tell import Teller

ENTRY = Entry(
    at=100.0, kind="promotion", actor="ada", served_model="m", before="1", after="2",
    ranker="length-ranker", version="2", gate="tau-b .4 against .3", reasons=("because",),
)  # fmt: skip


def made(folder):
    history = History(folder / "history.db")
    teller = Teller(history, Notifier((), {}, lambda: 0.0, random.Random(0)), lambda: 7.0)
    return Announcer(EventLog(folder / "events.jsonl"), teller, lambda: 7.0)


def test_it_is_logged_and_kept(tmp_path, caplog):
    with caplog.at_level("INFO"):
        made(tmp_path)(ENTRY)
    (line,) = (tmp_path / "events.jsonl").read_text().splitlines()
    said = json.loads(line)
    assert (said["kind"], said["actor"], said["before"], said["after"]) == (
        "promotion", "ada", "1", "2",
    )  # fmt: skip
    assert said["logged"] == 7.0
    assert read_history(tmp_path / "history.db") == [ENTRY]
    assert "promotion of m: 1 -> 2" in caplog.text


def test_readers_of_the_monitor_s_events_pass_over_it(tmp_path, caplog):
    made(tmp_path)(ENTRY)
    assert list(read_events(tmp_path / "events.jsonl")) == []
    assert "no drift events" not in caplog.text


def test_a_log_that_cannot_be_written_keeps_nobody_from_being_told(tmp_path, caplog):
    (tmp_path / "events.jsonl").mkdir()
    made(tmp_path)(ENTRY)
    assert read_history(tmp_path / "history.db") == [ENTRY]
    assert "event log" in caplog.text
