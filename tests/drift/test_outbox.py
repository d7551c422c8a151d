"""Events wait for the disk, and nobody waits for himself."""

from __future__ import annotations

import threading
from dataclasses import replace

from drift.events import Event, EventLog, read_events
from drift.monitor import Monitor
from drift.outbox import Outbox
from drift.worker import Worker


def _events(stream, count: int) -> list[Event]:
    monitor = Monitor()
    (event,) = [e for o in stream(420, 0.4, 1) for e in monitor.update(o)]
    return [replace(event, outcome=i) for i in range(count)]


def test_a_job_with_more_events_than_there_is_room_for_comes_to_its_end(stream, tmp_path):
    work, told, ended = Worker(), [], threading.Event()
    outbox = Outbox(EventLog(tmp_path / "e.jsonl"), lambda: 1.0, told.append, work, most=10)
    events = _events(stream, 50)

    def job() -> None:
        outbox.put(events)
        outbox.send()
        ended.set()

    assert work.submit("job", job)
    assert ended.wait(30), "it waits for itself"
    work.drain()
    work.close()
    assert told == list(read_events(tmp_path / "e.jsonl")) == events


def test_who_reports_waits_for_room(stream, tmp_path):
    work, go, begun, told, went = Worker(), threading.Event(), threading.Event(), [], []

    def listens(event: Event) -> None:
        begun.set()
        assert go.wait(60)
        told.append(event)

    outbox = Outbox(EventLog(tmp_path / "e.jsonl"), lambda: 1.0, listens, work, most=10)
    first, second = _events(stream, 1), _events(stream, 12)
    outbox.put(first)
    outbox.send()
    assert begun.wait(60)  # the worker stands still
    outbox.put(second)
    reporting = threading.Event()

    def reports() -> None:
        reporting.set()
        outbox.send()
        went.append(go.is_set())

    thread = threading.Thread(target=reports)
    thread.start()
    assert reporting.wait(60)
    go.set()
    thread.join(60)
    work.close()
    assert went == [True]
    assert told == first + second


def test_alerts_are_counted_when_they_come_about(stream, tmp_path):
    work = Worker()
    outbox = Outbox(EventLog(tmp_path / "e.jsonl"), lambda: 1.0, None, work)
    (event,) = _events(stream, 1)
    worse = replace(event, kind="state", previous="ok", state="degraded")
    outbox.put([event, worse, replace(worse, previous="fcfs")])
    assert outbox.alerts == 1
    outbox.send()
    work.close()
