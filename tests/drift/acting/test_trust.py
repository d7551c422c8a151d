"""Trust by state, by slice, and by what is left; when it rises again."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from drift.acting.change import CAUTION, Change
from drift.acting.config import ActConfig
from drift.acting.level import DWELL, STEP
from drift.acting.standing import Standing
from drift.acting.trust import Trust
from drift.key import OTHER, Key
from drift.states import State

WHOLE = Key("m", "ranker", "1")
A, B = WHOLE.part("", "a"), WHOLE.part("", "b")
REST = Key("m", "ranker", "1", None, OTHER)
CONFIG = ActConfig()


def at(
    key: Key, state: State, outcomes: int = 500, worth: float | None = None, **more: bool
) -> Standing:
    charted = more.get("charted", True)
    return Standing(
        key, state, outcomes, charted, more.get("calm", state is State.OK) and charted, worth
    )


def of(trust: Trust, tenant: str) -> float:
    return trust.of(WHOLE, "", tenant)


def test_nothing_known_is_trusted_and_a_healthy_version_changes_nothing() -> None:
    trust = Trust(CONFIG)
    assert of(trust, "a") == 1.0
    assert trust.update([at(WHOLE, State.OK, worth=0.4)]) == []
    assert of(trust, "a") == 1.0


def test_it_falls_with_the_state_and_returns_with_it() -> None:
    trust, seen = Trust(CONFIG), []
    for state in (State.WARN, State.FCFS, State.DEGRADED, State.WARN, State.OK):
        (change,) = trust.update([at(WHOLE, state)])
        seen.append(of(trust, "whoever"))
        assert float(change.after) == seen[-1]
        assert str(state) in change.why
    assert seen == [CONFIG.warn, 0.0, CONFIG.degraded, CONFIG.warn, 1.0]
    assert trust.update([at(WHOLE, State.OK)]) == []


@given(st.lists(st.tuples(st.sampled_from(State), st.none() | st.floats(0.0, 1.0)), min_size=1))
def test_it_never_exceeds_what_is_left_and_rises_in_a_warning_alone_after_a_dwell(
    looks: list[tuple[State, float | None]],
) -> None:
    trust, before, moved = Trust(CONFIG), (State.OK, 1.0), 0
    for number, (state, worth) in enumerate(looks):
        outcomes = 500 + 25 * number
        trust.update([at(WHOLE, state, outcomes, worth=worth)])
        found = of(trust, "a")
        assert 0.0 <= found <= 1.0
        if state is State.OK:
            assert found == 1.0
        elif state is State.WARN:
            assert CONFIG.degraded <= found <= CONFIG.warn
            assert worth is None or found <= max(CONFIG.degraded, worth + 2.0 * STEP)
        else:
            assert found <= CONFIG.degraded
            assert worth is None or found <= worth
        if state is before[0] and found > before[1]:
            assert state is State.WARN
            assert outcomes - moved >= DWELL
        if (state, found) != before:
            moved = outcomes
        assert (found == 0.0) or state is not State.FCFS
        before = state, found


def test_as_order_comes_back_in_a_warning_so_does_trust() -> None:
    """The first replay in it is of the window before: it is not what stays."""
    trust, seen, outcomes = Trust(CONFIG), [], 1000
    trust.update([at(WHOLE, State.DEGRADED, outcomes, worth=0.05)])
    seen.append(of(trust, "a"))
    for worth in (0.05, 0.4, 0.75, 0.95):
        for _ in range(10):
            outcomes += 25
            trust.update([at(WHOLE, State.WARN, outcomes, worth=worth, calm=worth > 0.9)])
        seen.append(of(trust, "a"))
    assert seen == [0.05, CONFIG.degraded, 0.4, CONFIG.warn, 1.0]


def test_a_share_that_wavers_moves_nothing_and_one_that_jumps_about_does_so_once() -> None:
    trust = Trust(CONFIG)
    told = []
    for look in range(200):
        worth = (0.41, 0.47)[look % 2] if look < 100 else (0.2, 0.6)[look % 2]
        told += trust.update([at(WHOLE, State.WARN, 25 * look, worth=worth)])
    assert [change.after for change in told] == ["0.4", "0.2"]


def test_while_degraded_nothing_flaps() -> None:
    trust, told, flat = Trust(CONFIG), [], frozenset({WHOLE})
    for look in range(40):
        whole = at(WHOLE, State.DEGRADED, 25 * look, worth=(0.9, 0.3)[look % 2])
        told += trust.update([whole], flat if look % 3 == 2 else frozenset())
    assert [change.after for change in told] == ["0.2", "0"]
    (change,) = trust.update([at(WHOLE, State.WARN, 1000)])
    assert change.after == "0.6"


def test_a_slice_that_has_vouched_goes_on_though_its_chart_is_restless() -> None:
    trust, told = Trust(CONFIG), []
    for look in range(20):
        part = at(A, State.OK, 100 + 25 * look, calm=look % 3 != 0)
        told += trust.update([at(WHOLE, State.DEGRADED, 500), part])
    assert [(change.key, change.after) for change in told] == [(WHOLE, "0.2"), (A, "1")]
    trust.update([at(WHOLE, State.DEGRADED, 500), at(A, State.WARN, 700)])
    assert of(trust, "a") == CONFIG.degraded


def test_forecasts_that_are_missing_cost_those_that_come_nothing() -> None:
    trust = Trust(CONFIG)
    for state in (State.WARN, State.DEGRADED, State.FCFS):
        lost = replace(at(WHOLE, state, worth=0.3), order=State.OK)
        assert trust.update([lost, replace(at(A, state), order=State.OK)]) == []
    assert trust.healthy == {A}
    (change,) = trust.update([replace(at(WHOLE, State.FCFS, worth=0.3), order=State.WARN)])
    assert change.after == "0.3"
    assert "state fcfs, by order warn" in change.why


def test_a_warning_that_is_none_of_order_costs_nothing() -> None:
    trust = Trust(CONFIG)
    assert trust.update([at(WHOLE, State.WARN, worth=0.9, calm=True)]) == []
    (change,) = trust.update([at(WHOLE, State.WARN, worth=0.8, calm=True)])
    assert change.after == "0.6"
    assert trust.update([at(WHOLE, State.WARN, worth=0.95, calm=True)]) == [], "not at once"
    (change,) = trust.update([at(WHOLE, State.WARN, 500 + DWELL, worth=0.95, calm=True)])
    assert change.after == "1"
    trust = Trust(CONFIG)
    trust.update([at(WHOLE, State.WARN, worth=0.95, calm=False)])
    assert of(trust, "a") == CONFIG.warn


def test_a_slice_in_trouble_is_alone_in_it() -> None:
    trust = Trust(CONFIG)
    ok = [at(WHOLE, State.OK), at(A, State.OK), at(B, State.OK)]
    trust.update(ok)
    changes = trust.update([at(WHOLE, State.OK), at(A, State.DEGRADED), at(B, State.OK)])
    assert [(c.key, c.after) for c in changes] == [(A, "0.2")]
    assert (of(trust, "a"), of(trust, "b"), of(trust, "new")) == (0.2, 1.0, 1.0)
    # Its share of the traffic now shows in the whole, too: the others still answer for themselves.
    trust.update([at(WHOLE, State.DEGRADED), at(A, State.DEGRADED), at(B, State.OK)])
    assert (of(trust, "a"), of(trust, "b")) == (0.2, 1.0)
    assert of(trust, "new") == 0.2, "one without a chart of its own goes by the whole"
    trust.update(ok)
    assert (of(trust, "a"), of(trust, "b"), of(trust, "new")) == (1.0, 1.0, 1.0)


def test_when_all_of_a_version_decays_its_slices_go_by_it_until_they_vouch_for_themselves() -> None:
    trust = Trust(CONFIG)
    trust.update([at(WHOLE, State.OK), at(A, State.OK, 90), at(B, State.OK, 90)])
    changes = trust.update([at(WHOLE, State.DEGRADED), at(A, State.OK, 95), at(B, State.OK, 95)])
    assert [c.key for c in changes] == [WHOLE], "said once, for all of them"
    assert of(trust, "a") == of(trust, "b") == CONFIG.degraded
    assert not trust.healthy
    later = [at(A, State.OK, 95 + CONFIG.vouch), at(B, State.OK, 94 + CONFIG.vouch)]
    changes = trust.update([at(WHOLE, State.DEGRADED), *later])
    assert (of(trust, "a"), of(trust, "b")) == (1.0, CONFIG.degraded)
    assert [(c.key, c.before, c.after) for c in changes] == [(A, "0.2", "1")]
    assert trust.healthy == {A}
    restless = at(B, State.OK, 95 + 5 * CONFIG.vouch, calm=False)
    trust.update([at(WHOLE, State.DEGRADED), later[0], restless])
    assert of(trust, "b") == CONFIG.degraded


def test_one_without_a_slice_goes_by_everybody_else_and_those_by_the_whole_without_a_chart() -> (
    None
):
    trust = Trust(CONFIG)
    trust.update([at(WHOLE, State.OK), at(A, State.OK), at(REST, State.WARN)])
    assert (of(trust, "a"), of(trust, "small")) == (1.0, CONFIG.warn)
    uncharted = [at(key, State.OK, charted=False) for key in (A, REST)]
    trust.update([at(WHOLE, State.FCFS), *uncharted])
    assert of(trust, "a") == of(trust, "small") == 0.0


def test_a_tenant_who_calls_itself_other_is_not_everybody_else() -> None:
    trust = Trust(CONFIG)
    named = WHOLE.part("", OTHER)
    trust.update([at(WHOLE, State.OK), at(named, State.FCFS), at(REST, State.OK)])
    assert (of(trust, OTHER), of(trust, "small")) == (0.0, 1.0)


def test_a_new_version_starts_with_trust_and_what_is_gone_is_said() -> None:
    trust = Trust(CONFIG)
    trust.update([at(WHOLE, State.FCFS), at(A, State.FCFS)])
    new = Key("m", "ranker", "2")
    (change,) = trust.update([at(new, State.OK)])
    assert (change.key, change.after) == (WHOLE, "1")
    assert trust.of(new, "", "a") == 1.0
    assert trust.known == {new: 1.0}


def test_a_slice_that_loses_its_place_goes_by_the_others() -> None:
    trust = Trust(CONFIG)
    trust.update([at(WHOLE, State.OK), at(A, State.FCFS)])
    (change,) = trust.update([at(WHOLE, State.OK)])
    assert (change.key, change.before, change.after) == (A, "0", "1")
    assert of(trust, "a") == 1.0


def test_each_action_has_its_switch() -> None:
    states = (State.WARN, State.DEGRADED, State.FCFS)
    found = {}
    for shrink in (True, False):
        for fallback in (True, False):
            trusts = []
            for state in states:
                trust = Trust(ActConfig(shrink=shrink, fallback=fallback))
                trust.update([at(WHOLE, state)])
                trusts.append(of(trust, "a"))
            found[shrink, fallback] = trusts
    assert found == {
        (True, True): [0.6, 0.2, 0.0],
        (True, False): [0.6, 0.2, 0.2],
        (False, True): [1.0, 1.0, 0.0],
        (False, False): [1.0, 1.0, 1.0],
    }


def test_forecasts_that_say_the_same_of_all_have_no_order_to_go_by() -> None:
    trust = Trust(CONFIG)
    (change,) = trust.update([at(WHOLE, State.DEGRADED)], frozenset({WHOLE}))
    assert of(trust, "a") == 0.0
    assert "the same of everybody" in change.why
    entry = change.entry(5.0)
    assert (entry.kind, entry.before, entry.after) == ("action", "trust 1", "trust 0")
    assert "order of arrival" in entry.advice


def early(standing: Standing) -> Standing:
    return replace(standing, early=True)


def told(changes: list[Change]) -> list[tuple[str, str, str]]:
    return [(change.before, change.after, change.cause) for change in changes]


def test_while_order_seems_lost_there_is_no_trust_and_it_returns_by_itself() -> None:
    trust = Trust(CONFIG)
    changes = trust.update([early(at(WHOLE, State.OK))])
    assert told(changes) == [("1", "0", CAUTION)]
    assert "what ended last" in changes[0].why
    assert of(trust, "a") == 0.0
    assert trust.update([early(at(WHOLE, State.OK))]) == []
    assert told(trust.update([at(WHOLE, State.OK)])) == [("0", "1", CAUTION)]
    assert of(trust, "a") == 1.0


def test_an_alarm_is_told_although_there_was_caution_and_nothing_flaps_in_it() -> None:
    trust = Trust(CONFIG)
    trust.update([early(at(WHOLE, State.OK))])
    assert told(trust.update([early(at(WHOLE, State.WARN))])) == [("1", "0.6", "")]
    assert told(trust.update([early(at(WHOLE, State.DEGRADED))])) == [("0.6", "0.2", "")]
    for calm in (True, False, True):
        degraded = at(WHOLE, State.DEGRADED)
        assert trust.update([degraded if calm else early(degraded)]) == []
        assert of(trust, "a") == 0.0
    back = trust.update([at(WHOLE, State.WARN)])
    assert told(back) == [("0.2", "0.6", ""), ("0", "0.6", CAUTION)]
    assert told(trust.update([at(WHOLE, State.OK)])) == [("0.6", "1", "")]


def test_it_is_an_action_that_goes_with_the_others() -> None:
    only = ActConfig(shrink=False, fallback=False)
    for off in (ActConfig(early=False), only):
        trust = Trust(off)
        assert trust.update([early(at(WHOLE, State.OK))]) == []
        assert of(trust, "a") == 1.0
    mild = Trust(ActConfig(caution=0.5))
    mild.update([early(at(WHOLE, State.OK))])
    assert of(mild, "a") == 0.5


def test_all_slices_are_in_it_unless_one_explains_it_and_it_is_said_once() -> None:
    whole, a, b = early(at(WHOLE, State.OK)), at(A, State.OK), at(B, State.OK)
    trust = Trust(CONFIG)
    assert len(trust.update([whole, a, b])) == 1
    assert of(trust, "a") == of(trust, "b") == of(trust, "c") == 0.0
    assert trust.update([whole, early(a), b]) == []  # one that says so later changes nothing
    assert of(trust, "b") == 0.0
    assert [c.key for c in trust.update([at(WHOLE, State.OK), early(a), b])] == [WHOLE, A]
    assert (of(trust, "a"), of(trust, "b"), of(trust, "c")) == (0.0, 1.0, 1.0)  # a tenant alone
    trust.update([at(WHOLE, State.OK), a, b])
    assert [c.key for c in trust.update([whole, early(a), b])] == [WHOLE, A]
    assert (of(trust, "a"), of(trust, "b")) == (0.0, 1.0)


def test_a_slice_that_vouches_for_itself_in_trouble_is_left_alone_by_the_rest() -> None:
    trust = Trust(CONFIG)
    trust.update([at(WHOLE, State.FCFS), at(A, State.OK)])
    trust.update([early(at(WHOLE, State.FCFS)), at(A, State.OK, 500 + CONFIG.vouch)])
    assert of(trust, "a") == 1.0


@given(st.lists(st.tuples(st.sampled_from(State), st.booleans(), st.booleans()), min_size=1))
def test_what_is_told_is_what_states_leave_and_caution_takes_from_it(
    looks: list[tuple[State, bool, bool]],
) -> None:
    trust, plain = Trust(CONFIG), Trust(ActConfig(early=False))
    for number, (state, whole, part) in enumerate(looks):
        rows = [at(WHOLE, state, 500 + number), at(A, State.OK, 500 + number)]
        found = [replace(row, early=flag) for row, flag in zip(rows, (whole, part), strict=True)]
        changes = trust.update(found)
        assert told(plain.update(found)) == told([c for c in changes if c.cause != CAUTION])
        for tenant in "abc":
            assert of(trust, tenant) in (of(plain, tenant), 0.0)
        if whole:
            assert of(trust, "c") == 0.0
