"""Which alerts fire at a receiver, by what the monitor and the promotions said."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift.acting.change import CAUTION, TRUST, Change
from drift.entry import MONITOR, Entry
from drift.key import Key
from drift.notify.notice import Board, Status
from drift.states import State


def _told(board, *entries):
    return [
        (str(n.status), n.severity, n.replaces, n.started)
        for one in entries
        for n in board.take(one)
    ]


def test_an_alert_keeps_its_start_and_ends(entry):
    assert _told(
        Board(),
        entry("ok", "warn", 1.0),
        entry("warn", "degraded", 2.0),
        entry("degraded", "fcfs", 3.0),
        entry("fcfs", "degraded", 4.0),
        entry("degraded", "warn", 5.0),
        entry("warn", "ok", 6.0),
    ) == [
        ("firing", "warning", "", 1.0),
        ("firing", "critical", "warning", 1.0),
        ("firing", "critical", "", 1.0),
        ("firing", "critical", "", 1.0),
        ("firing", "warning", "critical", 1.0),
        ("resolved", "warning", "", 1.0),
    ]


def test_below_its_level_a_receiver_hears_nothing(entry):
    board = Board(State.DEGRADED)
    assert _told(board, entry("ok", "warn", 1.0)) == []
    assert _told(board, entry("warn", "degraded", 2.0)) == [("firing", "critical", "", 2.0)]
    assert _told(board, entry("degraded", "warn", 3.0)) == [("resolved", "critical", "", 2.0)]
    with pytest.raises(ValueError, match="level"):
        Board(State.OK)


def test_a_ranker_that_took_over_ends_the_alert_about_the_one_before(entry):
    board = Board()
    board.take(entry("ok", "degraded", 1.0))
    board.take(entry("ok", "warn", 1.0, lane="", tenant="acme"))
    own = entry("degraded", "degraded", 2.0, kind="reference")
    assert board.take(own) == []  # the same version learned again: nothing is better for it
    learned = entry("ok", "ok", 3.0, kind="reference", version="8")
    assert _told(board, learned) == [("resolved", "critical", "", 1.0)]
    promoted = entry("7", "8", 4.0, kind="promotion", version="8", actor="eva", gate="passed")
    assert [(n.status, n.entry.tenant) for n in board.take(promoted)] == [
        (Status.RESOLVED, "acme"),
        (Status.INFO, None),
    ]
    assert board.firing == ()


def test_a_change_of_scale_is_told_and_is_no_alert(entry):
    board = Board()
    (told,) = board.take(entry("ok", "ok", kind="scale", lane="", tenant="acme"))
    assert told.status is Status.INFO
    assert told.title.endswith("llama <3> (tenant acme): lengths changed as a whole")
    assert board.firing == ()


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(list(State))), max_size=30))
def test_what_fires_is_what_was_said_last(moves):
    board, last = Board(), {}
    for at, (tenant, state) in enumerate(moves):
        before = last.get(tenant, State.OK)
        told = board.take(
            Entry(float(at), "state", MONITOR, "m", str(before), str(state), lane="", tenant=tenant)
        )
        fires = state is not State.OK
        assert [n.status is Status.FIRING for n in told] == [fires] * (
            fires or before is not State.OK
        )
        last[tenant] = state
    assert {n.entry.tenant: n.state for n in board.firing} == {
        tenant: str(state) for tenant, state in last.items() if state is not State.OK
    }


def test_caution_is_for_the_history_and_other_actions_are_told():
    key = Key("m", "ranker", "1")
    caution = Change(key, TRUST, "1", "0.2", "why", cause=CAUTION)
    alarm = Change(key, TRUST, "0.2", "0", "why")
    assert _told(Board(), caution.entry(1.0)) == []
    assert _told(Board(), alarm.entry(2.0)) == [("info", "info", "", 2.0)]
