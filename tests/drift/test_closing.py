"""A series that is not watched any more says so: alerts about it end by themselves."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest

from drift.config import MonitorConfig
from drift.entry import Entry
from drift.events import CLOSED
from drift.idle import Idle
from drift.key import Key
from drift.monitor import Monitor
from drift.notify.notice import Board
from drift.slices import SliceConfig
from drift.states import State

CONFIG = MonitorConfig(
    window=250, least=150, fcfs_least=200, reference_most=400, lapse=50,
    chart=dataclasses.replace(MonitorConfig().chart, streams=8, length=1024),
    slices=SliceConfig(most=2, total=3, least=20, half_life=300),
)  # fmt: skip


def _feed(monitor, outcomes, **changes):
    return [
        event
        for outcome in outcomes
        for event in monitor.update(dataclasses.replace(outcome, **changes))
    ]


def _closed(events):
    return [e for e in events if e.cause == CLOSED]


def _degraded(stream, config=CONFIG, **changes):
    monitor = Monitor(config)
    _feed(monitor, stream(450, 0.4, 1), **changes)
    events = _feed(monitor, stream(500, 0.0, 2, start=450), **changes)
    assert monitor.snapshot("m").state >= State.DEGRADED
    return monitor, events


def test_a_version_that_was_replaced_is_over_when_nothing_more_comes_of_it(stream):
    monitor, raised = _degraded(stream)
    new = stream(200, 0.4, 3, start=950, version="2")
    events = _feed(monitor, new)
    (closed,) = _closed(events)
    assert (closed.kind, closed.previous, closed.state) == ("state", raised[-1].state, "ok")
    assert (closed.version, closed.lane, closed.tenant) == ("1", None, None)
    assert closed.reasons == ("ranker ranker 2 took its place",)
    assert closed.at == new[49].arrival  # the 50th of the new one
    assert (closed.advice, closed.alert) == ("", False)
    board = Board()
    told = [notice for e in [*raised, *events] for notice in board.take(Entry.of(e))]
    assert (str(told[-1].status), board.firing) == ("resolved", ())
    assert "not watched any more (state was fcfs)" in told[-1].title
    assert [(s.key.version, s.state) for s in monitor.snapshots()] == [
        ("1", State.OK),
        ("2", State.OK),
    ]


def test_two_versions_side_by_side_are_both_watched(stream):
    monitor, _ = _degraded(stream)
    both = zip(
        stream(300, 0.0, 4, start=950),
        stream(300, 0.4, 5, start=950, version="2"),
        strict=True,
    )
    assert _closed(_feed(monitor, [o for pair in both for o in pair])) == []
    assert monitor.snapshots()[0].state >= State.DEGRADED


def test_after_a_swap_the_old_version_is_over_at_once_and_for_good(stream):
    monitor, _ = _degraded(stream, tenant="a")
    old = Key("m", "ranker", "1")
    learned = monitor.references()[old]
    assert _closed(monitor.supersede("m", "ranker", "2", 2e9))[0].at == 2e9
    assert monitor.snapshot("m").key.version == "2"
    assert monitor.snapshot("m").outcomes == 0
    # What was under way ends later: it changes nothing and says nothing.
    assert _feed(monitor, stream(300, 0.0, 6, start=950)) == []
    assert monitor.snapshot("m").key.version == "2"
    assert monitor.supersede("m", "ranker", "1", 2e9) == []  # rolled back
    snapshot = monitor.snapshot("m")
    assert (snapshot.key, snapshot.state, snapshot.outcomes) == (old, State.OK, 0)
    assert snapshot.reference == learned
    alarms = _feed(monitor, stream(300, 0.0, 7, start=1300))
    assert any(e.alert and e.version == "1" for e in alarms)  # by the reference it had


def _tenants(stream, n, seed, start, tau, who):
    """``who`` is called with the number of each and names its tenant."""
    rows = stream(n, tau, seed, start=start)
    return [dataclasses.replace(o, tenant=who(i)) for i, o in enumerate(rows)]


def test_a_slice_that_loses_its_place_is_over(stream):
    monitor = Monitor(CONFIG)
    _feed(monitor, _tenants(stream, 950, 1, 0, 0.4, lambda i: "ab"[i % 2]))
    raised = _feed(monitor, _tenants(stream, 500, 2, 950, 0.0, lambda i: "ab"[i % 2]))
    assert {e.tenant for e in raised if e.alert} >= {"a", "b"}
    events = _feed(monitor, _tenants(stream, 900, 3, 1450, 0.0, lambda i: "cd"[i % 2]))
    over = {e.tenant: e.reasons for e in _closed(events) if e.tenant}
    assert set(over) == {"a", "b"}
    assert "other slices have more traffic" in over["a"][0]
    assert {s.key.tenant for s in monitor.slices("m")} <= {"c", "d", "(other)"}
    board = Board()
    for event in [*raised, *events]:
        board.take(Entry.of(event))
    assert {n.entry.tenant for n in board.firing} == {
        s.key.tenant for s in [*monitor.slices("m"), monitor.snapshot("m")] if s.state > State.OK
    }


def test_what_gets_nothing_for_long_is_over_and_comes_back_with_its_reference(stream):
    monitor, _ = _degraded(stream)
    learned = monitor.snapshot("m").reference
    assert monitor.idle(0.0) == []
    assert monitor.idle(86_399.0) == []
    (closed,) = monitor.idle(2e9)
    assert closed.at == 2e9
    assert "24 hours" in closed.reasons[0]
    assert monitor.snapshots() == []
    _feed(monitor, stream(10, 0.4, 8, start=2000))
    assert monitor.snapshot("m").reference == learned


def test_names_that_push_others_out_end_their_alerts(stream):
    monitor, _ = _degraded(stream, dataclasses.replace(CONFIG, streams=2))
    events = [
        event
        for i in range(2)
        for event in _feed(monitor, stream(3, 0.4, 9, start=950), served_model=f"other {i}")
    ]
    (closed,) = _closed(events)
    assert (closed.served_model, closed.state) == ("m", "ok")


def test_after_a_restart_only_what_is_long_past_is_over(stream):
    monitor, _ = _degraded(stream)
    last = monitor.recent(Key("m", "ranker", "1"))[-1].arrival
    assert monitor.stale(last + 86_399.0) == []
    (closed,) = monitor.stale(last + 86_400.0)
    assert "before the restart" in closed.reasons[0]
    again = Monitor(CONFIG)
    _feed(again, stream(450, 0.4, 1))
    assert again.stale(last + 1e9) == []  # it is well: it stays to be seen
    assert len(again.snapshots()) == 1


def test_the_end_of_a_version_does_not_end_the_alert_of_its_successor(stream):
    entry = {
        (version, before, after, cause): Entry(
            float(at), "state", "drift monitor", "m", before, after, "ranker", version, cause=cause
        )
        for at, (version, before, after, cause) in enumerate(
            (
                ("1", "ok", "degraded", "order"),
                ("2", "ok", "warn", "order"),
                ("1", "degraded", "ok", CLOSED),
            )
        )
    }
    board = Board()
    told = [board.take(one) for one in entry.values()]
    assert told[-1] == []
    assert [n.entry.version for n in board.firing] == ["2"]


def test_a_tenant_who_calls_itself_the_rest_is_another(stream):
    monitor = Monitor(CONFIG)

    def who(i):
        return ("(other)", "big", f"small {i}")[i % 3]

    rows = _tenants(stream, 600, 10, 0, 0.4, who)
    _feed(monitor, rows[:300])
    _feed(monitor, rows[300:], lane="(other)")
    found = {(s.key.lane, s.key.tenant): s for s in monitor.slices("m")}
    assert (None, "(other)") in found
    assert {key for key in found if key[1] == "(other)" and key[0] is not None}
    assert sum(s.key.rest for s in found.values()) == 1
    labels = [s.key.label for s in found.values()]
    assert len(set(labels)) == len(labels)
    assert sum(s.traffic for s in found.values()) == pytest.approx(1.0, abs=0.15)


def test_idle_counts_from_the_first_look_and_from_every_change():
    idle, key = Idle(10.0), Key("m", "r", "1")
    looks = [(0.0, 1), (9.0, 1), (9.5, 2), (19.0, 2), (19.5, 2)]
    assert [bool(idle.look([(key, n)], now)) for now, n in looks] == [0, 0, 0, 0, 1]
    assert idle.look([(key, 2)], -100.0) == []  # the clock was set back
    assert idle.look([], 1e9) == []
    for before, after in pairwise((1e9, 1e9 + 9.0)):
        assert idle.look([(key, 2)], before) == idle.look([(key, 2)], after) == []
