from __future__ import annotations

import dataclasses
import json
import sqlite3
import subprocess
import sys
import threading

import numpy as np
import pytest

from drift.config import MonitorConfig
from drift.detectors.concordance_cusum import ChartConfig
from drift.events import EventLog, read_events
from drift.metrics import DriftCollector
from drift.monitor import Monitor
from drift.outcomes import OutcomeStore
from drift.recovery import recover
from drift.sink import MonitoredStore
from drift.states import State
from ranker.sketch import sketches
from ranker.types import FinishReason

CONFIG = MonitorConfig(chart=ChartConfig(streams=24, length=4096))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "où est le store" / "out comes.db"


def test_what_was_stored_comes_back_equal_in_order_of_arrival(stream, path):
    rows = stream(50, 0.3, 1, limit=150) + stream(10, 0.3, 2, start=50, scored=False)
    rows[3] = dataclasses.replace(rows[3], tenant="t", lane="l", finish_reason=FinishReason.ABORT)
    strange = dataclasses.replace(rows[4].forecast, novelty=0.97)
    rows[4] = dataclasses.replace(rows[4], forecast=strange)
    (sketch,) = sketches(np.random.default_rng(1).normal(size=(1, 96)))
    embedded = dataclasses.replace(rows[5].forecast, sketch=sketch)
    rows[5] = dataclasses.replace(rows[5], forecast=embedded)
    store = OutcomeStore(path)
    assert store.store(rows[::-1]) == (60, 0)
    assert list(store.by_arrival()) == rows
    assert list(store.by_report()) == rows[::-1]
    assert list(store.by_arrival("m", last=5)) == rows[-5:]
    assert list(store.by_arrival("other")) == []
    store.close()
    assert list(OutcomeStore(path).by_arrival()) == rows


@pytest.mark.parametrize("missing", [("novelty", "sketch"), ("sketch",)])
def test_a_store_from_before_novelty_or_sketches_goes_on(stream, path, missing):
    rows = stream(4, 0.3, 1)
    store = OutcomeStore(path)
    store.store(rows[:2])
    store.close()
    with sqlite3.connect(path) as db:
        for column in missing:
            db.execute(f"ALTER TABLE outcomes DROP COLUMN {column}")
    store = OutcomeStore(path)
    strange = dataclasses.replace(rows[2].forecast, novelty=0.97, sketch=(0.5, -1.25))
    rows[2] = dataclasses.replace(rows[2], forecast=strange)
    assert store.store(rows) == (2, 2)
    assert list(store.by_arrival()) == rows


def test_the_first_report_of_an_id_counts(stream, path):
    first = stream(5, 0.3, 1)
    store = OutcomeStore(path)
    assert store.store(first[:3]) == (3, 0)
    changed = [dataclasses.replace(o, output_tokens=1) for o in first]
    assert store.put(changed).new == changed[3:]
    assert store.store([first[0], first[0]]) == (0, 2)
    assert list(store.by_arrival())[:3] == first[:3]
    assert len(store) == 5


def test_a_batch_is_stored_whole_or_not_at_all(stream, path):
    store = OutcomeStore(path)
    good = stream(3, 0.3, 1)
    bad = dataclasses.replace(good[2], request_id="x", output_tokens=2**70)  # beyond SQLite
    with pytest.raises(OverflowError):
        store.store([good[0], bad])
    assert len(store) == 0
    assert store.store(good) == (3, 0)


def test_what_was_acknowledged_outlives_a_killed_process(path):
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from drift.outcomes import OutcomeStore; from ranker.types import *\n"
        "s = OutcomeStore(Path(sys.argv[1]))\n"
        "s.store([Outcome(str(i), 'm', i, FinishReason.STOP, i, i + 1) for i in range(100)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
    assert len(OutcomeStore(path)) == 100


def test_several_threads_lose_and_double_nothing(stream, path):
    rows = stream(400, 0.3, 1)
    store = OutcomeStore(path)
    totals: list[int] = []

    def report(part):
        totals.append(sum(store.store(part[i : i + 10])[0] for i in range(0, len(part), 10)))

    threads = [
        threading.Thread(target=report, args=(rows[k * 50 : k * 50 + 200],)) for k in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(totals) == len(store) == 400


def test_a_folder_is_no_store(tmp_path):
    with pytest.raises(ValueError, match="not a store of outcomes"):
        OutcomeStore(tmp_path, create=False)


def test_other_files_are_refused_and_left_alone(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("not a database, but long enough to be taken for one " * 40)
    with pytest.raises(ValueError, match="not a store of outcomes"):
        OutcomeStore(other)
    assert other.read_text().startswith("not a database")
    with pytest.raises(ValueError, match="nothing has been reported"):
        OutcomeStore(tmp_path / "missing.db", create=False)
    newer = tmp_path / "newer.db"
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(ValueError, match="upgrade shortfirst"):
        OutcomeStore(newer)


def test_the_schema_has_no_place_for_prompts(path):
    OutcomeStore(path).close()
    with sqlite3.connect(path) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(outcomes)")]
    assert not [c for c in columns if "text" in c or ("prompt" in c and c != "prompt_tokens")]


@pytest.fixture
def drifted(stream):
    return stream(900, 0.36, 1) + stream(700, 0.0, 2, start=900)


def _open(path, **changes):
    return MonitoredStore.open(
        path, path.parent / "events.jsonl", lambda: 7.0, changes.pop("config", CONFIG), **changes
    )


def test_reports_reach_disk_monitor_log_and_metrics(drifted, path):
    told = []
    sink = _open(path, on_event=told.append)
    assert sink.store(drifted) == (1600, 0)
    assert sink.store(drifted[:10]) == (0, 10)
    (snapshot,) = sink.snapshots()
    assert snapshot.state is State.FCFS
    assert snapshot.outcomes == 1600  # a duplicate isn't weighed twice
    logged = list(read_events(path.parent / "events.jsonl"))
    assert logged == told
    assert any(event.alert for event in logged)
    lines = (path.parent / "events.jsonl").read_text().splitlines()
    assert {json.loads(line)["logged"] for line in lines} == {7.0}
    metrics = {
        (s.name, s.labels.get("mean")): s.value
        for family in DriftCollector(sink).collect()
        for s in family.samples
    }
    assert metrics["shortfirst_drift_state", None] == 3.0
    assert metrics["shortfirst_drift_duplicates_total", None] == 10
    assert metrics["shortfirst_drift_conflicts_total", None] == 0
    assert metrics["shortfirst_drift_outcomes_total", None] == 1600
    assert metrics["shortfirst_drift_tau", None] == snapshot.cohort.tau.value
    assert metrics["shortfirst_drift_sjf_efficiency_ratio", "e2el"] < 0.3
    assert metrics["shortfirst_drift_last_arrival_timestamp_seconds", None] == drifted[-1].arrival
    sink.close()


def test_metrics_leave_out_what_is_not_known(stream, path):
    sink = _open(path)
    names = {s.name for f in DriftCollector(sink).collect() for s in f.samples}
    assert names == {
        f"shortfirst_drift_{name}_total"
        for name in (
            "duplicates", "conflicts", "bounds", "settled", "clock_mended", "refused",
            "jobs_dropped",
        )
    }  # fmt: skip
    sink.store(stream(20, 0.3, 1, scored=False))
    names = {s.name for f in DriftCollector(sink).collect() for s in f.samples}
    assert "shortfirst_drift_unscored_ratio" in names
    assert "shortfirst_drift_tau" not in names
    assert "shortfirst_drift_reference_tau" not in names
    sink.close()


def test_a_restart_goes_on_where_it_was_and_logs_nothing_again(drifted, path):
    sink = _open(path)
    sink.store(drifted)
    before = sink.snapshots()
    sink.close()
    log = (path.parent / "events.jsonl").read_text()
    again = _open(path)
    assert again.snapshots() == before
    assert (path.parent / "events.jsonl").read_text() == log
    again.close()


def test_a_long_past_is_judged_by_the_saved_reference(drifted, path):
    sink = _open(path)
    sink.store(drifted)
    sink.close()
    store = OutcomeStore(path)
    monitor = recover(store, CONFIG, last=600)  # all of them after the change
    moved = {s.name: s.reference for s in monitor.view().shifts(monitor.snapshot("m").key)}
    assert moved["output_tokens"] == 800  # what it was learned from, not the last 600
    assert monitor.snapshot("m").state >= State.DEGRADED
    assert monitor.snapshot("m").reference.tau.value > 0.25
    store.close()


def test_trouble_in_the_monitor_does_not_fail_a_report(stream, path, caplog):
    class Broken(Monitor):
        def update(self, outcome):
            raise RuntimeError("broken")

    store = OutcomeStore(path)
    sink = MonitoredStore(store, Broken(), EventLog(path.parent / "e.jsonl"), lambda: 0.0)
    assert sink.store(stream(3, 0.3, 1)) == (3, 0)
    assert len(store) == 3
    assert "the outcome is stored" in caplog.text


def test_a_name_begins_no_line_of_the_log(stream, path, caplog):
    name = "m\n2026-11-30 CRITICAL drift.sink: all is lost\x1b[2J"
    sink = _open(path)
    with caplog.at_level("INFO"):
        sink.store([dataclasses.replace(o, served_model=name) for o in stream(800, 0.4, 1)])
    sink.close()
    assert "reference learned" in caplog.text
    assert not any(set("\n\x1b") & set(record.getMessage()) for record in caplog.records)


def test_a_log_that_cannot_be_written_keeps_nobody_from_being_told(drifted, path, caplog):
    (path.parent / "e.jsonl").mkdir(parents=True)  # no file can be opened there
    told = []
    sink = MonitoredStore.open(path, path.parent / "e.jsonl", lambda: 0.0, CONFIG, told.append)
    sink.store(drifted)
    sink.close()
    assert any(event.alert for event in told)
    assert "the outcomes are stored" in caplog.text
