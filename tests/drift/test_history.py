"""One history: durable, told once, bounded, and complete after a crash."""

from __future__ import annotations

import dataclasses
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from drift.entry import MONITOR, Entry
from drift.events import Event
from drift.history import History, read_history
from drift.tell import Teller

EVENT = Event(
    kind="state", served_model="m", ranker="r", version="1", at=5.0, outcome=400, previous="ok",
    state="degraded", reasons=("tau-b fell à zéro",), tau=0.1, tau_low=0.0, tau_high=0.2,
    tau_outcomes=200, since_change=200, reference_tau=0.4, chart=9.0, chart_limit=8.0,
    unscored_share=float("nan"), censored_share=0.0, message="été", tenant="acme", lane="",
    cause="order",
)  # fmt: skip
PROMOTED = Entry(
    at=9.0, kind="promotion", actor="eva", served_model="m", before="1", after="2", ranker="r",
    version="2", gate="passed", details={"tau_b": 0.5},
)  # fmt: skip


def _event(at, before, after, **others):
    return dataclasses.replace(EVENT, at=at, previous=before, state=after, **others)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "l'histoire" / "history.db"


STANDING = [
    Entry.of(_event(3.0, "degraded", "fcfs")),
    Entry.of(_event(2.5, "ok", "warn", tenant="other")),
]


def test_an_event_has_cause_evidence_slice_and_what_to_do(path):
    with closing(History(path)) as history:
        history.add([Entry.of(EVENT), PROMOTED], 10.0)
    state, promoted = read_history(path)
    assert promoted == PROMOTED
    told = state.as_dict()
    assert told["actor"] == MONITOR
    assert (told["before"], told["after"], told["cause"]) == ("ok", "degraded", "order")
    assert (told["tenant"], told["reasons"]) == ("acme", ["tau-b fell à zéro"])
    assert "retrain" in told["advice"]
    assert told["details"]["reference_tau"] == 0.4
    assert "unscored_share" not in told["details"]  # unknown, and JSON has no NaN


def test_what_is_told_twice_counts_once_even_by_two_writers(path):
    with closing(History(path)) as one, closing(History(path)) as two:
        assert one.add([PROMOTED], 1.0) == [PROMOTED]
        assert two.add([PROMOTED, Entry.of(EVENT)], 2.0) == [Entry.of(EVENT)]
        assert one.add([Entry.of(EVENT)], 3.0) == []
    assert len(read_history(path)) == 2


def test_it_can_be_narrowed_and_does_not_grow_without_bound(path):
    with closing(History(path, most=5)) as history:
        history.add([PROMOTED], 0.0)
        for at in range(50):
            history.add([Entry.of(_event(10.0 + at, "ok", "warn"))], 0.0)
    every = read_history(path)
    assert [e.at for e in every if e.kind == "state"] == [55.0, 56.0, 57.0, 58.0, 59.0]
    assert [e.kind for e in every].count("promotion") == 1  # flapping pushes out no promotion
    assert read_history(path, kinds=["promotion"]) == [PROMOTED]
    assert [e.at for e in read_history(path, last=2)] == [58.0, 59.0]
    assert read_history(path, served_model="other") == []


def test_what_is_no_history_is_refused_and_left_alone(tmp_path):
    assert read_history(tmp_path / "none.db") == []
    assert not (tmp_path / "none.db").exists()
    junk = tmp_path / "junk.db"
    junk.write_text("no database" * 100)
    for use in (History, read_history):
        with pytest.raises(ValueError, match="is no history"):
            use(junk)
    assert junk.read_text().startswith("no database")
    with closing(sqlite3.connect(tmp_path / "newer.db")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(ValueError, match="upgrade shortfirst"):
        History(tmp_path / "newer.db")
    with pytest.raises(ValueError, match="most"):
        History(tmp_path / "a.db", most=0)


def test_what_was_added_survives_kill_9(path):
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from drift.history import History; from drift.entry import Entry\n"
        "history = History(Path(sys.argv[1]))\n"
        "history.add([Entry(1.0, 'action', 'me', 'm', '', 'fcfs')], 1.0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=120)
    assert killed.returncode == -9
    assert [e.after for e in read_history(path)] == ["fcfs"]


def test_a_crash_before_the_event_was_written_is_made_good(path):
    replayed = [
        _event(1.0, "ok", "warn"),
        _event(2.0, "warn", "degraded"),
        _event(2.5, "ok", "warn", tenant="other"),
        _event(3.0, "degraded", "fcfs"),
    ]
    with closing(History(path)) as history:
        history.add([Entry.of(e) for e in replayed[:2]], 2.0)
        teller = Teller(history, None, lambda: 4.0)
        teller.resume(replayed, STANDING)
        assert read_history(path) == [Entry.of(e) for e in replayed]
        teller.resume(replayed, STANDING)
        # A replay that starts elsewhere tells its own story: what does not take up where the
        # history left off is not written.
        teller.resume([_event(3.5, "ok", "warn"), _event(3.6, "warn", "degraded")], STANDING)
        assert len(read_history(path)) == 4
        newer = _event(5.0, "ok", "warn", version="2")
        teller.resume([newer], [Entry.of(newer), STANDING[1]])
        assert read_history(path)[-1] == Entry.of(newer)


def test_after_a_restart_the_history_is_put_right(path):
    with closing(History(path)) as history:
        told = [_event(1.0, "ok", "degraded"), _event(1.0, "ok", "warn", tenant="gone")]
        history.add([Entry.of(e) for e in told], 1.0)
        teller = Teller(history, None, lambda: 9.0)
        stands = Entry.of(_event(0.9, "ok", "ok"))
        teller.resume([], [stands])
        teller.resume([], [stands])
    corrected = read_history(path)[2:]
    assert {(e.tenant, e.before, e.after, e.at) for e in corrected} == {
        ("acme", "degraded", "ok", 9.0),
        ("gone", "warn", "ok", 9.0),
    }
    assert len(corrected) == 2


def test_an_alert_is_taken_up_whatever_was_said_after_it(path):
    with closing(History(path)) as history:
        learned = _event(2.0, "degraded", "degraded", kind="scale")
        history.add([Entry.of(EVENT), Entry.of(dataclasses.replace(learned, at=6.0))], 7.0)
        assert list(history.states().values()) == [Entry.of(EVENT)]
        assert history.missed([_event(5.5, "degraded", "fcfs")]) == []
        later = _event(6.5, "degraded", "fcfs")
        assert history.missed([later]) == [Entry.of(later)]


def test_telling_goes_on_without_a_disk(path, caplog):
    told = []

    class Ear:
        def tell(self, entry):
            told.append(entry)

        def close(self, within_s):
            pass

    history = History(path)
    history.close()
    Teller(history, Ear(), lambda: 0.0)(EVENT)
    assert told == [Entry.of(EVENT)]
    assert "could not be written" in caplog.text


def test_entries_are_ordered_by_when_they_happened(path):
    with closing(History(path)) as history:
        history.add([PROMOTED], 20.0)
        history.add([Entry.of(EVENT)], 21.0)
    assert [e.at for e in read_history(Path(path))] == [5.0, 9.0]
