from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from drift.clocks import ReporterClock
from drift.delivery import Delivery
from drift.opened import Open
from drift.reporters import Reporters
from drift.survivors import Survivors
from drift.truncation import beyond, cut

START = 1_700_000_040.0  # the start of a minute


def _deliver(reporters, outcomes, ahead, *, name="r", sent=True, delay=0.05):
    """By a reporter whose clock is ``ahead``, as its outcomes end."""
    out = []
    for outcome in outcomes:
        received = outcome.finished + delay
        told = dataclasses.replace(
            outcome, arrival=outcome.arrival + ahead, finished=outcome.finished + ahead
        )
        delivery = Delivery([told], (), name, outcome.finished + ahead if sent else None)
        right, _ = reporters.put_right(delivery, received)
        out += right.outcomes
    return out


@pytest.mark.parametrize("ahead", [-300.0, -2.0, 45.0, 500.0])
def test_a_wrong_clock_is_put_right_both_ways(stream, ahead):
    rows = stream(50, 0.4, 1)
    reporters = Reporters()
    found = _deliver(reporters, rows, ahead)
    for outcome, right in zip(rows, found, strict=True):
        assert right.arrival == pytest.approx(outcome.arrival, abs=0.1)
        assert right.finished - right.arrival == pytest.approx(
            outcome.finished - outcome.arrival, abs=1e-3
        )
    (row,) = reporters.rows()
    assert row.clock_ahead_seconds == pytest.approx(ahead, abs=0.1)
    assert "clock" in row.notes[0]


def test_an_outcome_from_the_future_of_a_right_clock_ends_when_it_came(stream):
    rows = stream(20, 0.4, 1)
    reporters = Reporters()
    _deliver(reporters, rows[:19], 0.0)
    received = rows[19].finished
    wild = dataclasses.replace(
        rows[19], arrival=rows[19].arrival + 500.0, finished=received + 500.0
    )
    right, mended = reporters.put_right(Delivery([rows[18], wild], (), "r", received), received)
    assert mended == 1
    assert right.outcomes[0] is rows[18]
    assert right.outcomes[1].finished == pytest.approx(received)
    assert right.outcomes[1].arrival == pytest.approx(rows[19].arrival)


def test_without_a_time_of_sending_only_a_clock_ahead_can_be_seen(stream):
    rows = stream(50, 0.4, 1)
    reporters = Reporters()
    fast = _deliver(reporters, rows, 45.0, name="fast", sent=False)
    assert fast[-1].arrival == pytest.approx(rows[-1].arrival, abs=0.2)
    slow = _deliver(reporters, rows, -45.0, name="slow", sent=False)
    assert slow[-1].arrival == pytest.approx(rows[-1].arrival - 45.0)


def test_one_nameless_reporter_does_not_move_the_others(stream):
    rows = stream(20, 0.4, 1)
    reporters = Reporters()
    _deliver(reporters, rows[:10], 300.0, name="", sent=False)
    right = _deliver(reporters, rows[10:], 0.0, name="", sent=False)
    assert right == rows[10:]


def test_slow_messages_are_no_wrong_clock():
    clock = ReporterClock()
    for delay in (30.0, 0.2, 12.0, 100.0):
        clock.read(1000.0, None, 1000.0 + delay)
    assert clock.ahead == 0.0


@pytest.mark.parametrize("wrong", [3.0e7, 700.0])
def test_a_clock_that_was_wrong_once_does_not_move_what_comes_after_it_was_set(stream, wrong):
    rows = stream(6, 0.4, 1)
    reporters = Reporters()
    found = _deliver(reporters, rows[:3], wrong) + _deliver(reporters, rows[3:], 0.0)
    for outcome, right in zip(rows, found, strict=True):
        assert right.arrival == pytest.approx(outcome.arrival, abs=0.1)
    assert reporters.rows()[0].clock_ahead_seconds == 0.0


def test_open_requests_are_put_right_too(stream):
    (outcome,) = stream(1, 0.4, 1)
    request = Open("o", "m", 3, outcome.arrival + 50.0, outcome.arrival + 60.0)
    sent = outcome.finished + 50.0
    reporters = Reporters()
    right, _ = reporters.put_right(Delivery([], [request], "r", sent), outcome.finished)
    assert right.open[0].arrival == pytest.approx(outcome.arrival)
    assert reporters.rows()[0].open == 1


def test_reporters_are_bounded():
    reporters = Reporters(most=3)
    for i in range(20):
        reporters.of(f"r{i}")
    assert [row.reporter for row in reporters.rows()] == ["r19", "r18", "r17"]


def test_what_a_forecast_expects_beyond_a_length_is_its_survival(stream):
    forecast = stream(1, 0.4, 1)[0].forecast
    for level, quantile in zip(forecast.levels, forecast.quantiles, strict=True):
        if quantile < forecast.quantiles[-1]:
            assert beyond(forecast, quantile) == pytest.approx(1.0 - level)
    assert beyond(forecast, 0.0) == 1.0 - forecast.levels[0]
    assert beyond(forecast, 1e9) == 0.0


def test_whoever_reports_only_short_ones_is_noticed(stream):
    rows = stream(500, 0.4, 2)
    assert cut(rows) is None
    short = [o for o in rows if o.output_tokens <= 150]
    longest, expected = cut(short)
    assert longest <= 150
    assert expected > 12
    reporters = Reporters()
    reporters.of("honest").took(rows)
    reporters.of("flatterer").took(short)
    notes = {row.reporter: row.notes for row in reporters.rows()}
    assert notes["honest"] == ()
    assert "short ones" in notes["flatterer"][0]


def test_a_token_limit_is_no_omission(stream):
    assert cut(stream(500, 0.4, 2, limit=150)) is None


@pytest.fixture
def watched(stream):
    """Two hours of requests, all ranked; what is reported is up to the test."""
    rows = stream(7000, 0.4, 3)
    rows = [dataclasses.replace(o, arrival=START + i, finished=START + i + o.output_tokens / 50)
            for i, o in enumerate(rows)]  # fmt: skip
    survivors = Survivors()
    for outcome in rows:
        survivors.rank(outcome.forecast.score, outcome.arrival)
    return survivors, rows, rows[-1].arrival


def _report(survivors, rows):
    for outcome in sorted(rows, key=lambda o: o.finished):
        survivors.report(outcome.forecast.score, outcome.arrival, outcome.finished)


def test_when_all_is_reported_nothing_is_said(watched):
    survivors, rows, now = watched
    _report(survivors, [o for o in rows if o.finished <= now])
    found = survivors.look(now)
    assert found.ranked == found.reported > 5000
    assert found.distance == pytest.approx(0.0)
    assert found.words == ""


def test_survivorship_is_told_from_mere_loss(watched):
    survivors, rows, now = watched
    draw = np.random.default_rng(1)
    _report(survivors, [o for o in rows if draw.random() < 0.7])
    found = survivors.look(now)
    assert found.missing == pytest.approx(0.3, abs=0.03)
    assert not found.selective
    assert "30%" in found.words or "29%" in found.words or "31%" in found.words


def test_survivorship_is_told_from_shorter_answers(watched):
    survivors, rows, now = watched
    _report(survivors, [o for o in rows if o.output_tokens <= 250])
    found = survivors.look(now)
    assert found.selective
    assert "survivorship" in found.words
    halved = Survivors()
    for outcome in rows:
        halved.rank(outcome.forecast.score, outcome.arrival)
    _report(halved, [dataclasses.replace(o, output_tokens=o.output_tokens // 2) for o in rows])
    assert halved.look(now).words == ""


def test_too_little_says_nothing():
    survivors = Survivors()
    for i in range(300):
        survivors.rank(float(i), START + i)
    assert survivors.look(START + 4000.0) is None
