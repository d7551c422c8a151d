from __future__ import annotations

import dataclasses

import pytest

from drift.config import MonitorConfig
from drift.detectors.concordance_cusum import ChartConfig
from drift.key import Key
from drift.monitor import Monitor
from drift.reference import Reference, load_references, save_references
from drift.states import State

#: Smaller calibration than the default, for speed; the same thresholds in outcomes.
CONFIG = MonitorConfig(chart=ChartConfig(streams=24, length=4096))
KEY = Key("m", "ranker", "1")


def _feed(monitor, outcomes):
    return [event for outcome in outcomes for event in monitor.update(outcome)]


def _moves(events):
    return [(e.previous, e.state) for e in events if e.kind == "state"]


def test_healthy_traffic_stays_ok_and_lost_order_is_noticed_and_named(stream):
    monitor = Monitor(CONFIG)
    healthy = _feed(monitor, stream(1100, 0.36, 1))
    assert [e.outcome for e in healthy] == [400, 800]
    assert {e.kind for e in healthy} == {"reference"}
    assert monitor.snapshot("m").state is State.OK
    shifted = _feed(monitor, stream(1000, 0.03, 2, start=1100))
    assert _moves(shifted)[:2] == [("ok", "warn"), ("warn", "degraded")]
    alert = next(e for e in shifted if e.alert)
    assert alert.outcome - 1100 < 300
    assert alert.tau < 0.2 < alert.reference_tau
    assert "retrain" in alert.message
    assert monitor.snapshot("m").state is State.FCFS


def test_some_order_left_is_degraded_not_fcfs(stream):
    monitor = Monitor(CONFIG)
    _feed(monitor, stream(1100, 0.36, 3))
    _feed(monitor, stream(1500, 0.16, 4, start=1100))
    assert monitor.snapshot("m").state is State.DEGRADED


def test_it_recovers_level_by_level_when_order_returns(stream):
    monitor = Monitor(CONFIG)
    _feed(monitor, stream(1000, 0.36, 5))
    _feed(monitor, stream(700, 0.0, 6, start=1000))
    assert monitor.snapshot("m").state is State.FCFS
    moves = _moves(_feed(monitor, stream(2000, 0.36, 7, start=1700)))
    assert moves == [("fcfs", "degraded"), ("degraded", "warn"), ("warn", "ok")]


def test_a_change_of_scale_is_not_a_loss_of_order(stream):
    monitor = Monitor(CONFIG)
    _feed(monitor, stream(1000, 0.36, 8))
    longer = [
        dataclasses.replace(o, output_tokens=o.output_tokens * 3)
        for o in stream(1000, 0.36, 9, start=1000)
    ]
    events = _feed(monitor, longer)
    assert [e.cause for e in events if e.kind == "scale"] == ["scale"]
    assert _moves(events) == [("ok", "warn")]  # watched, not degraded
    assert monitor.snapshot("m").cohort.coverage_p50 < 0.25  # which is what shows it


def test_answers_cut_by_a_limit_are_lower_bounds(stream):
    monitor = Monitor(CONFIG)
    assert _moves(_feed(monitor, stream(1500, 0.36, 10, limit=200))) == []
    cohort = monitor.snapshot("m").cohort
    assert 0.3 < cohort.censored_share < 0.5
    assert cohort.coverage_p50 == pytest.approx(0.5, abs=0.08)
    assert cohort.tau.value == pytest.approx(0.36, abs=0.1)


def test_missing_forecasts_show_as_fcfs_and_end_with_their_return(stream):
    monitor = Monitor(CONFIG)
    _feed(monitor, stream(800, 0.36, 11))
    outage = _feed(monitor, stream(600, 0.36, 12, start=800, scored=False))
    assert _moves(outage)[-1][1] == "fcfs"
    assert "no forecast" in outage[-1].message
    snapshot = monitor.snapshot("m")
    assert snapshot.cohort.unscored_share == 1.0
    assert snapshot.key == KEY  # counted against the ranker that should have answered
    _feed(monitor, stream(1200, 0.36, 13, start=1400))
    assert monitor.snapshot("m").state is State.OK


def test_a_ranker_that_never_ordered_anything_is_called_so(stream):
    monitor = Monitor(CONFIG)
    events = _feed(monitor, stream(1000, 0.0, 14))
    assert _moves(events)[0][1] == "degraded"
    assert monitor.snapshot("m").reference is None


def test_a_new_version_starts_afresh_and_the_old_one_is_no_longer_current(stream):
    monitor = Monitor(CONFIG)
    _feed(monitor, stream(900, 0.36, 15))
    _feed(monitor, stream(500, 0.0, 16, start=900))
    assert monitor.snapshot("m").state >= State.DEGRADED
    _feed(monitor, stream(500, 0.36, 17, start=1400, version="2"))
    assert monitor.snapshot("m").key.version == "2"
    assert monitor.snapshot("m").state is State.OK
    assert [(s.key.version, s.current) for s in monitor.snapshots()] == [("1", False), ("2", True)]


def test_served_models_do_not_mix(stream):
    monitor = Monitor(CONFIG)
    good, bad = stream(1600, 0.36, 18, served_model="a"), stream(1000, 0.36, 19, served_model="b")
    bad += stream(600, 0.0, 20, start=1000, served_model="b")
    for a, b in zip(good, bad, strict=True):
        monitor.update(a)
        monitor.update(b)
    assert monitor.snapshot("a").state is State.OK
    assert monitor.snapshot("b").state >= State.DEGRADED


def test_a_given_reference_judges_from_the_first_outcome(stream):
    reference = Reference.learn(stream(1500, 0.36, 21), CONFIG)
    monitor = Monitor(CONFIG, {KEY: reference})
    events = _feed(monitor, stream(400, 0.0, 22))
    assert next(e for e in events if e.alert).outcome < 300


def test_what_drifted_does_not_become_the_reference(stream):
    config = dataclasses.replace(CONFIG, reference_first=400, reference_most=800)
    monitor = Monitor(config)
    _feed(monitor, stream(420, 0.36, 23))
    before = monitor.snapshot("m").reference
    _feed(monitor, stream(800, 0.05, 24, start=420))
    assert monitor.snapshot("m").reference == before


def test_it_is_deterministic(stream):
    outcomes = stream(700, 0.36, 25) + stream(300, 0.0, 26, start=700)
    assert _feed(Monitor(CONFIG), outcomes) == _feed(Monitor(CONFIG), outcomes)


def test_flush_weighs_what_is_held(stream):
    outcomes = sorted(stream(300, 0.36, 27), key=lambda o: o.finished)
    monitor = Monitor(CONFIG)
    _feed(monitor, outcomes)
    held = monitor.snapshot("m").held
    assert held > 0
    monitor.flush()
    snapshot = monitor.snapshot("m")
    assert snapshot.held == 0
    assert snapshot.outcomes + snapshot.late == 300
    assert monitor.history(snapshot.key)[-1].outcome == snapshot.outcomes


def test_names_that_reporters_invent_do_not_fill_memory(stream):
    monitor = Monitor(dataclasses.replace(CONFIG, streams=4))
    for i in range(50):
        for outcome in stream(2, 0.36, 28, served_model=f"m{i}"):
            monitor.update(outcome)
    assert len(monitor.snapshots()) == 4


def test_a_flush_may_forget_a_stream(stream):
    monitor = Monitor(dataclasses.replace(CONFIG, streams=2))
    for model in ("a", "b"):
        late = sorted(stream(40, 0.36, 30, served_model=model), key=lambda o: o.finished)
        _feed(monitor, late)
    held = monitor.snapshot("b").held
    assert held > 0
    _feed(monitor, stream(held, 0.36, 31, start=40, served_model="b", version="2"))
    assert monitor.snapshot("b").key.version == "1"
    monitor.flush()
    assert [s.key.served_model for s in monitor.snapshots()] == ["b", "b"]


def test_references_survive_on_disk(stream, tmp_path):
    path = tmp_path / "réf erences" / "r.json"
    reference = Reference.learn(stream(500, 0.36, 29), CONFIG)
    assert load_references(path) == {}
    save_references(path, {KEY: reference})
    assert load_references(path) == {KEY: reference}
    assert [p.name for p in path.parent.iterdir()] == ["r.json"]
    path.write_text('[{"key": 1}]')
    with pytest.raises(ValueError, match="delete it"):
        load_references(path)


def test_configuration_from_tables_refuses_what_it_does_not_know():
    config = MonitorConfig.from_mapping({"window": 600, "chart": {"blocks": [1, 16]}})
    assert (config.window, config.chart.blocks) == (600, (1, 16))
    for values, text in (
        ({"windw": 1}, "monitor.windw"),
        ({"chart": {"k": 1}}, "chart.k"),
        ({"chart": 3}, "must be a table"),
        ({"window": 0}, "monitor.window"),
        ({"warn_arl": 1e6}, "warn_arl"),
        ({"unscored": {"warn": 0.7}}, "unscored"),
    ):
        with pytest.raises(ValueError, match=text):
            MonitorConfig.from_mapping(values)
