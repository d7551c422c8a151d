from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift.arrival import ArrivalOrder, HoldConfig
from drift.kaplan_meier import Curve
from drift.monitor import Monitor
from drift.opened import Open, OpenRequests
from drift.window import Window
from ranker.types import FinishReason, Outcome


def _outcome(name: str, arrival: float, finished: float, tokens: int = 5) -> Outcome:
    return Outcome(name, "m", tokens, FinishReason.STOP, arrival, finished)


def _open(name: str, arrival: float, seen: float, tokens: int) -> Open:
    return Open(name, "m", tokens, arrival, seen)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=60),
    st.integers(0, 20),
    st.integers(1, 10),
)
@settings(max_examples=200, deadline=None)
def test_with_open_requests_told_everybody_is_weighed_exactly_once(rows, most, every):
    """Whatever the hold: nobody is late, nobody comes twice, and all come by arrival."""
    ends = sorted((a + d, i, a) for i, (a, d) in enumerate(rows))
    order = ArrivalOrder(HoldConfig(most=most, memory=8, keep=0.5))
    out = []
    for step, (now, i, arrival) in enumerate(ends):
        for end, j, came in ends[step:]:  # told before anything ends that came after them
            if came <= now:
                order.note(_open(f"{j}", came, max(came, min(now, end)), step))
        out += order.push(_outcome(f"{i}", arrival, now))
    out += order.flush()
    assert [o.arrival for o in out] == sorted(o.arrival for o in out)
    assert sorted(o.request_id for o in out) == sorted(f"{i}" for i in range(len(rows)))
    assert order.late == 0
    assert sum(o.finish_reason.censored for o in out) == order.bounds
    assert order.settled == order.bounds
    assert order.open == 0


def test_stale_reports_and_other_stories_change_nothing():
    known = OpenRequests(10)
    known.note(_open("a", 1.0, 5.0, 40))
    known.note(_open("a", 1.0, 4.0, 30))  # told earlier, came later
    known.note(_open("a", 2.0, 6.0, 50))  # another arrival under the same name
    (request,) = known.passed(3.0)
    assert (request.arrival, request.output_tokens) == (1.0, 40)
    known.note(_open("a", 1.0, 7.0, 60))  # still open, but entered already
    assert len(known) == 0
    assert known.bounded("a")
    assert known.end("a")
    assert not known.end("a")
    known.note(_open("a", 1.0, 7.0, 60))  # ended already
    assert len(known) == 0


def test_what_is_known_to_be_open_is_bounded():
    known = OpenRequests(100)
    for i in range(1000):
        known.note(_open(f"{i}", float(i), float(i), 1))
    assert len(known) == 100
    for i in range(1000):
        known.end(f"{i}")
    assert len(known) == 0
    assert len(known._ended) == 100


def test_a_window_keeps_the_newest_arrivals_and_replaces_bounds():
    window = Window(4)
    for arrival in (1.0, 3.0, 5.0):
        window.add(_outcome(f"{arrival}", arrival, 9.0))
    bound = _outcome("long", 2.0, 9.0, 40)
    window.add(bound, bound=True)
    assert [o.arrival for o in window] == [1.0, 2.0, 3.0, 5.0]
    assert window.settle(_outcome("long", 2.0, 30.0, 900))
    assert [o.output_tokens for o in window] == [5, 900, 5, 5]
    assert not window.settle(bound)
    window.add(_outcome("next", 6.0, 9.0))
    assert [o.arrival for o in window] == [2.0, 3.0, 5.0, 6.0]
    window.add(_outcome("ancient", 0.0, 9.0))
    assert [o.arrival for o in window] == [2.0, 3.0, 5.0, 6.0]


def test_completions_alone_lack_the_long_ones_and_open_requests_bring_them_back(stream):
    """A server under way for a while: its windows by completion are length-biased."""
    rows = stream(1500, 0.4, 1)
    rows = [dataclasses.replace(o, finished=o.arrival + 2.0 * o.output_tokens) for o in rows]
    now = rows[-1].arrival
    ended = sorted((o for o in rows if o.finished <= now), key=lambda o: o.finished)
    truth = sum(o.output_tokens > 200 for o in rows[-500:]) / 500

    def share(tell: bool) -> float:
        monitor = Monitor()
        for k, outcome in enumerate(ended):
            if tell and k % 20 == 0:
                monitor.note(
                    Open(
                        o.request_id, "m", int((outcome.finished - o.arrival) / 2.0), o.arrival,
                        outcome.finished, o.prompt_tokens, o.forecast,
                    )
                    for o in rows
                    if o.arrival <= outcome.finished < o.finished
                )  # fmt: skip
            monitor.update(outcome)
        window = monitor.recent(monitor.snapshot("m").key)
        censored = [o.finish_reason.censored for o in window]
        return 1.0 - float(Curve.of([o.output_tokens for o in window], censored)(200.0))

    assert share(tell=False) < 0.85 * truth
    assert share(tell=True) == pytest.approx(truth, rel=0.1)


def test_an_open_request_is_checked_as_an_outcome_is():
    with pytest.raises(ValueError, match="finite"):
        _open("a", float("nan"), 1.0, 1)
    with pytest.raises(ValueError, match="finished"):
        _open("a", 5.0, 1.0, 1)


def test_late_ones_are_in_the_statistics_and_not_on_the_chart(stream):
    rows = stream(300, 0.4, 3)
    draw = random.Random(1)
    late = [rows[i] for i in sorted(draw.sample(range(200, 290), 12))]
    monitor = Monitor()
    for outcome in rows:
        if outcome not in late:
            monitor.update(outcome)
    for outcome in late:
        monitor.update(outcome)
    snapshot = monitor.snapshot("m")
    assert snapshot.late == 12
    assert snapshot.outcomes == 288
    assert snapshot.cohort.outcomes == 300
    assert monitor.recent(snapshot.key) == tuple(rows)
