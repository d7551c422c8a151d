"""Lost order and changed lengths told apart; and how a chart begins."""

from __future__ import annotations

import dataclasses
import math

import pytest

from drift.config import MonitorConfig
from drift.key import Key
from drift.reference import Reference
from drift.states import State
from drift.stream import Stream

KEY = Key("m", "ranker", "1")
CONFIG = MonitorConfig(
    window=250, least=150, fcfs_least=200,
    chart=dataclasses.replace(MonitorConfig().chart, streams=16, length=2048),
)  # fmt: skip


@pytest.fixture(scope="module")
def reference():
    from tests.drift.conftest import make_stream

    return Reference.learn(make_stream(1000, 0.5, 1), CONFIG)


def _feed(stream, outcomes):
    return [event for outcome in outcomes for event in stream.update(outcome)]


def _believing(outcomes, tau):
    """As sure of themselves as forecasts with that ``tau`` are, whatever they are worth."""
    rho = math.sin(math.pi * tau / 2)
    from tests.drift.conftest import Z

    return [
        dataclasses.replace(
            o,
            forecast=dataclasses.replace(
                o.forecast,
                quantiles=tuple(
                    math.exp(5.0 + rho * o.forecast.score + math.sqrt(1 - rho * rho) * z) for z in Z
                ),
            ),
        )
        for o in outcomes
    ]


@pytest.mark.parametrize("seed", range(3))
def test_where_only_the_order_is_lost_nothing_is_said_of_scale(stream, reference, seed):
    watched = Stream(KEY, CONFIG, reference)
    events = _feed(watched, stream(400, 0.5, 10 + seed))
    lost = _believing(stream(900, 0.0, 20 + seed, start=400), 0.5)
    events += _feed(watched, lost)
    assert [e.kind for e in events].count("scale") == 0
    assert {e.cause for e in events if e.kind == "state"} == {"order"}
    assert watched.state is State.FCFS
    assert not any("recalibrate" in e.message for e in events)


def test_where_both_change_the_alarm_says_both(stream, reference):
    watched = Stream(KEY, CONFIG, reference)
    _feed(watched, stream(400, 0.5, 30))
    both = [
        dataclasses.replace(o, output_tokens=o.output_tokens * 3)
        for o in _believing(stream(500, 0.0, 31, start=400), 0.5)
    ]
    events = _feed(watched, both)
    assert watched.state >= State.DEGRADED
    reasons = " ".join(r for e in events if e.alert for r in e.reasons)
    assert "answers are longer than forecast too" in reasons


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_change_of_scale_alone_is_labelled_as_soon_as_before(stream, reference, factor):
    """Within 40 (median) and 60 outcomes, as the benchmark asks of the detector itself."""
    delays = []
    for seed in range(7):
        watched = Stream(KEY, CONFIG, reference)
        _feed(watched, stream(300, 0.5, 40 + seed))
        changed = [
            dataclasses.replace(o, output_tokens=max(1, round(o.output_tokens * factor)))
            for o in stream(200, 0.5, 60 + seed, start=300)
        ]
        said = [e for e in _feed(watched, changed) if e.kind == "scale"]
        assert "the order is as it was" in said[0].message
        delays.append(said[0].outcome - 300)
    assert sorted(delays)[3] <= 40
    assert max(delays) <= 60


def test_the_first_outcomes_are_compared_with_too_few_to_raise_an_alarm(stream, reference):
    for seed in range(40):
        watched = Stream(KEY, CONFIG, reference)
        assert _feed(watched, stream(60, 0.5, 100 + seed)) == []
    watched = Stream(KEY, CONFIG, reference)
    _feed(watched, stream(CONFIG.chart.neighbours, 0.0, 200))
    assert watched.chart.value == 0.0


def test_a_chart_that_learns_begins_with_what_came_before(stream):
    """The outcome after a first lesson is judged against those before it, not against none."""
    config = dataclasses.replace(CONFIG, reference_first=200, reference_most=200)
    watched, rows = Stream(KEY, config, None), stream(400, 0.5, 300)
    _feed(watched, rows[:200])
    assert watched.reference is not None
    other = Stream(KEY, config, watched.reference)
    _feed(other, rows[200 - config.chart.neighbours : 200])
    for outcome in rows[200:]:
        watched.update(outcome)
        other.update(outcome)
        assert watched.chart.value == other.chart.value
