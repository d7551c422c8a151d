"""A monitored store whose slow work has a thread of its own."""

from __future__ import annotations

import dataclasses
import threading

import pytest

from drift.cohorts import measure
from drift.config import MonitorConfig
from drift.delivery import Delivery
from drift.events import EventLog, read_events
from drift.keeping import KeepConfig
from drift.lesson import Lesson
from drift.monitor import Monitor
from drift.outcomes import OutcomeStore
from drift.recovery import recover, references_path
from drift.reference import load_references
from drift.sink import MonitoredStore
from drift.states import State
from drift.valuer import Valuer
from drift.worker import Worker

CONFIG = MonitorConfig(
    reference_most=800,
    chart=dataclasses.replace(MonitorConfig().chart, streams=8, length=1024),
)
NOW = 1_700_100_000.0


def _batches(rows, size=50):
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def _open(folder, work=None, told=None, **changes):
    return MonitoredStore.open(
        folder / "o.db", folder / "e.jsonl", lambda: NOW, CONFIG,
        None if told is None else told.append, work=work, **changes,
    )  # fmt: skip


@pytest.fixture
def held(monkeypatch):
    """Lessons wait until they are let go."""
    go, learn = threading.Event(), Lesson.learn

    def waits(lesson):
        assert go.wait(60)
        return learn(lesson)

    monkeypatch.setattr(Lesson, "learn", waits)
    yield go
    go.set()


def test_reports_are_acknowledged_while_a_reference_is_learned(stream, tmp_path, held):
    sink = _open(tmp_path, Worker())
    rows = stream(700, 0.4, 1)
    for batch in _batches(rows):
        sink.receive(Delivery(batch), NOW)  # returns, though no lesson can end
    (snapshot,) = sink.snapshots()
    assert (snapshot.outcomes, snapshot.reference) == (700, None)
    held.set()
    sink.work.drain()
    (snapshot,) = sink.snapshots()
    assert snapshot.reference.outcomes == 400
    sink.close()
    assert load_references(references_path(tmp_path / "o.db")) == {snapshot.key: snapshot.reference}


def test_a_reference_that_comes_late_sees_what_it_missed(stream):
    rows = stream(420, 0.4, 1) + stream(300, 0.0, 2, start=420)
    at_once, put_off = Monitor(CONFIG), Monitor(CONFIG)
    put_off.defer()
    expected = [event for outcome in rows for event in at_once.update(outcome)]
    said = [event for outcome in rows for event in put_off.update(outcome)]
    assert not any(event.kind == "reference" for event in said)
    (lesson,) = put_off.lessons()
    learned, *moved = put_off.learned(lesson, lesson.learn())
    assert [(e.kind, e.cause) for e in moved] == [("state", "order")]
    first = next(event for event in expected if event.kind == "reference")
    assert (learned.at, learned.outcome) == (first.at, first.outcome)
    assert learned.reference_tau == first.reference_tau
    one, two = at_once.snapshot("m"), put_off.snapshot("m")
    assert two.reference == one.reference
    assert two.chart == one.chart  # as if it had been there
    assert put_off.learned(lesson, lesson.learn()) == []  # a second time is for nothing


@pytest.mark.parametrize("wait", [0, 150, 420, 550])
def test_what_came_while_a_lesson_took_its_time_is_not_learned(stream, wait):
    rows = stream(800, 0.4, 1) + stream(200, 0.0, 2, start=800)
    monitor = Monitor(CONFIG)
    monitor.defer()
    given, due = [], {}
    for number, outcome in enumerate(rows, start=1):
        monitor.update(outcome)
        for lesson in monitor.lessons():
            given.append(lesson)
            due[number + wait] = lesson
        if number in due:
            monitor.learned(due[number], due[number].learn())
    assert [lesson.number for lesson in given] == [400, 800]
    assert [lesson.due for lesson in given] == [rows[399].arrival, rows[799].arrival]
    for lesson, most in zip(given, (400, 800), strict=True):
        # What the chart had climbed by is left out; nothing that came later is in.
        assert list(lesson.outcomes) == rows[: len(lesson.outcomes)]
        assert most - 100 <= len(lesson.outcomes) <= most
    assert next(iter(monitor.baselines().values())).length.count in (400, 800)
    # The second is asked for in every case: with 550, after the shift was found.
    assert monitor.snapshot("m").state > State.OK


def test_a_lesson_of_a_series_that_is_over_is_for_nothing(stream):
    monitor = Monitor(CONFIG)
    monitor.defer()
    for outcome in stream(420, 0.4, 1):
        monitor.update(outcome)
    (lesson,) = monitor.lessons()
    monitor.supersede("m", "ranker", "2", 2e9)
    monitor.supersede("m", "ranker", "1", 2e9)
    assert monitor.learned(lesson, lesson.learn()) == []
    assert monitor.snapshot("m").reference is None


def test_nothing_is_learned_from_forecasts_without_order_however_late(stream):
    at_once, put_off = Monitor(CONFIG), Monitor(CONFIG)
    put_off.defer()
    for outcome in stream(1000, 0.0, 3):
        at_once.update(outcome)
        put_off.update(outcome)
        for lesson in put_off.lessons():
            assert put_off.learned(lesson, lesson.learn()) == []
    assert put_off.snapshot("m").state == at_once.snapshot("m").state >= State.DEGRADED


def test_events_are_told_in_order_and_all_before_the_end(stream, tmp_path):
    told = []
    sink = _open(tmp_path, Worker(), told)
    tenants = "abc"
    rows = [
        dataclasses.replace(outcome, tenant=tenants[i % 3])
        for i, outcome in enumerate(stream(1500, 0.4, 1) + stream(700, 0.0, 2, start=1500))
    ]
    for batch in _batches(rows):
        sink.receive(Delivery(batch), NOW)
    sink.close()
    assert told == list(read_events(tmp_path / "e.jsonl"))
    assert any(event.alert for event in told)
    for slice_ in {(e.lane, e.tenant) for e in told}:
        moves = [e for e in told if (e.lane, e.tenant) == slice_ and e.kind == "state"]
        assert [e.previous for e in moves[1:]] == [e.state for e in moves[:-1]]
    # A restart, which learns as it goes, comes to the same.
    store = OutcomeStore(tmp_path / "o.db")
    again = {s.key: s.state for s in recover(store, CONFIG).snapshots()}
    store.close()
    assert {key: state >= State.DEGRADED for key, state in again.items()} == {
        s.key: s.state >= State.DEGRADED for s in sink.snapshots()
    }


def test_a_listener_that_stands_still_holds_up_no_report(stream, tmp_path):
    go, heard = threading.Event(), []

    def stands(event):
        assert go.wait(60)
        heard.append(event)

    sink = MonitoredStore.open(
        tmp_path / "o.db", tmp_path / "e.jsonl", lambda: NOW, CONFIG, stands, work=Worker()
    )
    for batch in _batches(stream(450, 0.4, 1) + stream(500, 0.0, 2, start=450)):
        sink.receive(Delivery(batch), NOW)
    assert heard == []
    go.set()
    sink.close()
    assert heard == list(read_events(tmp_path / "e.jsonl"))
    assert {event.kind for event in heard} >= {"reference", "state"}


def test_a_replay_that_stands_still_holds_up_no_report(stream, tmp_path, monkeypatch):
    go, replay, begun = threading.Event(), Valuer.replay, threading.Event()

    def stands(self, turn, window):
        begun.set()
        assert go.wait(60)
        return replay(self, turn, window)

    monkeypatch.setattr(Valuer, "replay", stands)
    sink = _open(tmp_path, Worker())
    rows = stream(400, 0.4, 1)
    sink.receive(Delivery(rows[:300]), NOW)
    assert begun.wait(60)
    sink.receive(Delivery(rows[300:]), NOW)
    assert sink.board().models[0].overall.efficiency.value is None
    go.set()
    sink.work.drain()
    assert sink.board().models[0].overall.efficiency.value > 0.3
    sink.close()


@pytest.mark.parametrize("work", [None, Worker])
def test_old_outcomes_go_a_few_at_a_time_and_the_newest_never(stream, tmp_path, work):
    rows = stream(900, 0.4, 1)
    store = OutcomeStore(tmp_path / "o.db")
    store.put(rows)
    now = rows[-1].arrival + 200_000.0
    keep = KeepConfig(days=1.0, rows=0, least=200, batch=64)
    sink = MonitoredStore(
        store, Monitor(CONFIG), EventLog(tmp_path / "e.jsonl"), lambda: now,
        work=work and work(), keep=keep,
    )  # fmt: skip
    (young,) = stream(1, 0.4, 2, start=200_000)
    sink.receive(Delivery([dataclasses.replace(young, arrival=now, finished=now)]), now)
    sink.work.drain()
    assert list(store.by_report()) == [*rows[-199:], *store.by_report(1)]
    assert store.ever == 901
    assert store.prune(now, 100, 200, 64) == 0
    sink.close()


def test_rows_above_the_limit_go_whatever_their_age(stream, tmp_path):
    store = OutcomeStore(tmp_path / "o.db")
    store.put(stream(500, 0.4, 1))
    assert [store.prune(float("-inf"), 300, 10, 150) for _ in range(3)] == [150, 50, 0]
    assert len(store) == 300
    assert store.put(stream(1, 0.4, 1)).new  # an id that went is new again
    store.close()


def test_what_is_kept_is_checked():
    for values, text in (
        ({"days": -1.0}, "keep.days"),
        ({"rows": 100}, "keep.rows"),
        ({"batch": 0}, "keep.batch"),
        ({"seconds": 0.0}, "keep.seconds"),
    ):
        with pytest.raises(ValueError, match=text):
            KeepConfig(**values)
    assert KeepConfig(days=0.0).oldest(NOW) == float("-inf")
    assert KeepConfig(days=2.0).oldest(NOW) == NOW - 172_800.0


def test_a_board_that_takes_its_time_holds_up_no_report(stream, tmp_path, monkeypatch):
    go, begun, boards = threading.Event(), threading.Event(), []

    def stands(outcomes, confidence):
        begun.set()
        assert go.wait(60)
        return measure(outcomes, confidence)

    monkeypatch.setattr("drift.view.measure", stands)
    sink = _open(tmp_path)
    rows = stream(60, 0.4, 1)
    sink.receive(Delivery(rows[:50]), NOW)
    looking = threading.Thread(target=lambda: boards.append(sink.board()))
    looking.start()
    assert begun.wait(60)
    assert sink.receive(Delivery(rows[50:]), NOW).stored == 10
    go.set()
    looking.join()
    assert boards[0].models[0].overall.outcomes == 50
    assert sink.board().models[0].overall.outcomes == 60
    sink.close()


def test_lessons_double_up_to_the_most():
    assert MonitorConfig().lessons == (400, 800, 1600)
    assert MonitorConfig(reference_first=400, reference_most=1000).lessons == (400, 800, 1000)
    assert MonitorConfig(reference_first=400, reference_most=400).lessons == (400,)
