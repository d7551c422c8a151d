from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift.states import Evidence, State, StateConfig, StateMachine

OK, WARN, DEGRADED, FCFS = State


def test_it_rises_at_once_as_far_as_the_evidence_goes():
    machine = StateMachine(StateConfig(dwell=100))
    assert machine.update(Evidence(DEGRADED, DEGRADED), 1) == (OK, DEGRADED)
    assert machine.update(Evidence(FCFS, FCFS), 1) == (DEGRADED, FCFS)


def test_it_falls_one_level_a_dwell():
    machine = StateMachine(StateConfig(dwell=100))
    machine.update(Evidence(DEGRADED, DEGRADED), 1)
    calm = Evidence(OK, OK)
    moves = [machine.update(calm, 10) for _ in range(20)]
    assert [m for m in moves if m] == [(DEGRADED, WARN), (WARN, OK)]
    assert moves[9] == (DEGRADED, WARN)


def test_evidence_between_stay_and_enter_holds_a_state_and_restarts_the_dwell():
    machine = StateMachine(StateConfig(dwell=100))
    machine.update(Evidence(WARN, WARN), 1)
    for _ in range(50):
        assert machine.update(Evidence(OK, OK), 90) is None
        assert machine.update(Evidence(OK, WARN), 10) is None
    assert machine.state is WARN


def test_it_does_not_flap_when_evidence_alternates():
    machine = StateMachine(StateConfig(dwell=100))
    moves = [
        machine.update(Evidence(WARN, WARN) if i % 2 else Evidence(OK, OK), 10) for i in range(100)
    ]
    assert sum(move is not None for move in moves) == 1


@given(st.lists(st.tuples(st.sampled_from(State), st.sampled_from(State), st.integers(1, 300))))
def test_it_never_stands_below_what_evidence_enters_nor_falls_two_levels(rows):
    machine = StateMachine(StateConfig())
    for a, b, count in rows:
        before = machine.state
        machine.update(Evidence(min(a, b), max(a, b)), count)
        assert machine.state >= min(a, b)
        assert machine.state >= before - 1


def test_evidence_adds_up_to_the_more_severe():
    both = Evidence(WARN, DEGRADED, ("a",)) | Evidence(DEGRADED, DEGRADED, ("b",))
    assert (both.enter, both.stay, both.reasons) == (DEGRADED, DEGRADED, ("b", "a"))
    with pytest.raises(ValueError, match="stay"):
        Evidence(WARN, OK)


def test_settings_are_checked_by_name():
    with pytest.raises(ValueError, match="dwell"):
        StateConfig(dwell=0)
