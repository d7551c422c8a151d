"""What the monitor says of one tenant names that tenant."""

from __future__ import annotations

from dataclasses import replace

from drift.config import MonitorConfig
from drift.entry import Entry
from drift.monitor import Monitor


def test_events_of_a_slice_name_lane_and_tenant(stream):
    config = MonitorConfig(chart=replace(MonitorConfig().chart, streams=8, length=1024))
    monitor = Monitor(config)
    outcomes = [
        replace(o, tenant="ab"[i % 2], lane="chat") for i, o in enumerate(stream(1200, 0.4, 1))
    ]
    events = [event for o in outcomes for event in monitor.update(o)] + monitor.flush()
    learned = {(e.lane, e.tenant): e for e in events if e.kind == "reference"}
    assert set(learned) == {(None, None), ("chat", "a"), ("chat", "b")}
    assert Entry.of(learned["chat", "a"]).label == "tenant a, lane chat"
    assert "tenant a, lane chat" in learned["chat", "a"].message
