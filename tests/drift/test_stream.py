from __future__ import annotations

import dataclasses

import pytest

from drift.config import MonitorConfig
from drift.detectors.concordance_cusum import ChartConfig
from drift.key import Key
from drift.reference import Reference, load_references, save_references
from drift.states import State
from drift.stream import Stream

KEY = Key("m", "ranker", "1")
#: Smaller calibrations and windows than the default, for speed.
CONFIG = MonitorConfig(
    window=250, least=150, fcfs_least=200, chart=ChartConfig(streams=16, length=2048)
)


@pytest.fixture(scope="module")
def reference():
    from tests.drift.conftest import make_stream

    return Reference.learn(make_stream(1000, 0.4, 1), CONFIG)


def _longer(outcomes, factor):
    return [
        dataclasses.replace(o, output_tokens=max(1, round(o.output_tokens * factor)))
        for o in outcomes
    ]


def _feed(stream, outcomes):
    return [event for outcome in outcomes for event in stream.update(outcome)]


@pytest.mark.parametrize(("factor", "word"), [(2.0, "longer"), (0.5, "shorter")])
def test_a_change_of_scale_is_called_one_once_and_stays_a_warning(stream, reference, factor, word):
    watched = Stream(KEY, CONFIG, reference)
    assert _feed(watched, stream(600, 0.4, 2)) == []
    events = _feed(watched, _longer(stream(1200, 0.4, 3, start=600), factor))
    scale = [e for e in events if e.kind == "scale"]
    assert len(scale) == 1
    assert scale[0].outcome - 600 < 80
    assert scale[0].cause == "scale"
    assert word in scale[0].message
    assert "recalibrate" in scale[0].message
    assert not any(e.alert for e in events)
    assert watched.state is State.WARN
    moves = [(e.previous, e.state, e.cause) for e in events if e.kind == "state"]
    assert moves == [("ok", "warn", "scale")]
    # Back at the old scale the chart comes down, and the next change is told again.
    calm = _feed(watched, stream(1500, 0.4, 4, start=1800))
    assert [(e.previous, e.state) for e in calm] == [("warn", "ok")]
    again = _feed(watched, _longer(stream(200, 0.4, 5, start=3300), factor))
    assert [e.kind for e in again].count("scale") == 1


def test_lost_order_degrades_and_names_order_as_the_cause(stream, reference):
    watched = Stream(KEY, CONFIG, reference)
    _feed(watched, stream(400, 0.4, 6))
    events = _feed(watched, stream(500, 0.0, 7, start=400))
    alert = next(e for e in events if e.alert)
    assert alert.cause == "order"
    assert alert.outcome - 400 < 200


def test_a_slow_decay_is_seen_by_the_window(stream, reference):
    # The chart is switched off, so that what is seen is the window's doing.
    assert reference.window is not None
    blind = dataclasses.replace(
        reference,
        calibration=dataclasses.replace(reference.calibration, limits=(1e9, 2e9)),
    )
    watched = Stream(KEY, CONFIG, blind)
    events = _feed(watched, stream(400, 0.4, 8)) + _feed(watched, stream(700, 0.05, 9, start=400))
    reasons = " ".join(reason for e in events if e.kind == "state" for reason in e.reasons)
    assert "fall of the window's tau-b" in reasons
    assert watched.state >= State.DEGRADED


def test_a_short_reference_has_no_window_to_compare_with(stream):
    assert Reference.learn(stream(400, 0.4, 10), CONFIG).window is None


def test_everything_learned_survives_on_disk(reference, tmp_path):
    path = tmp_path / "references.json"
    save_references(path, {KEY: reference})
    assert load_references(path) == {KEY: reference}


def test_a_looked_at_stream_gives_the_same_however_it_is_fed(stream, reference):
    outcomes = stream(300, 0.4, 11) + stream(300, 0.1, 12, start=300)
    one, two = Stream(KEY, CONFIG, reference), Stream(KEY, CONFIG, reference)
    assert _feed(one, outcomes) == _feed(two, outcomes)
    assert list(one.history) == list(two.history)
