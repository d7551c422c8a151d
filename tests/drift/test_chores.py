"""What a monitored store has to do comes to an end when the service does."""

from __future__ import annotations

from drift.events import EventLog
from drift.keeping import KeepConfig
from drift.monitor import Monitor
from drift.outcomes import OutcomeStore
from drift.sink import MonitoredStore
from drift.worker import Worker


def test_deleting_old_outcomes_does_not_hold_up_the_end(stream, tmp_path, monkeypatch):
    store = OutcomeStore(tmp_path / "o.db")
    rows = stream(900, 0.4, 1)
    store.put(rows)
    now = rows[-1].arrival + 200_000.0
    keep = KeepConfig(days=1.0, rows=0, least=200, batch=10)
    sink = MonitoredStore(
        store, Monitor(), EventLog(tmp_path / "e.jsonl"), lambda: now, work=Worker(), keep=keep
    )
    prune, pieces = OutcomeStore.prune, []

    def pruned(self, *limits):
        pieces.append(prune(self, *limits))
        if len(pieces) == 3:  # the service ends meanwhile
            sink._chores.finish()
        return pieces[-1]

    monkeypatch.setattr(OutcomeStore, "prune", pruned)
    sink.store(stream(1, 0.4, 2, start=900))
    sink.work.drain()
    assert pieces == [10, 10, 10]
    monkeypatch.undo()
    sink.close()
