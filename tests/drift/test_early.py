"""Order that is lost, told by outcomes as they end; and bursts, which are no loss of order."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from drift.config import MonitorConfig
from drift.early import Early, EarlyFit
from drift.key import Key
from drift.monitor import Monitor
from drift.reference import Reference, load_references, sample_of, save_references
from drift.states import State
from tests.drift.conftest import make_stream

KEY = Key("m", "ranker", "1")
CONFIG = MonitorConfig(
    window=250, least=150, fcfs_least=200,
    chart=dataclasses.replace(MonitorConfig().chart, streams=16, length=4096),
)  # fmt: skip


@pytest.fixture(scope="module")
def reference():
    return Reference.learn(make_stream(1000, 0.4, 1), CONFIG)


def _drained(outcomes, size):
    """As they end when shortest first drains bursts of ``size``: by forecast within each."""
    return [
        outcome
        for start in range(0, len(outcomes), size)
        for outcome in sorted(outcomes[start : start + size], key=lambda o: o.forecast.score)
    ]


def _early(reference):
    early = Early(CONFIG.early)
    early.use(reference.early)
    return early


def _lost(early, outcomes):
    """Of each outcome, whether order seemed lost after it."""
    found = []
    for o in outcomes:
        early.update(o.forecast.score, o.output_tokens, o.finish_reason.censored)
        found.append(early.lost)
    return found


@pytest.mark.parametrize("size", [30, 60, 120, 300, 1000])
def test_queues_that_are_drained_in_order_of_forecasts_are_no_loss(reference, size):
    """The deeper the queue, the more alike are those that end together; in overload most of all."""
    outcomes = [make_stream(3000, 0.4, 10 + seed) for seed in range(3)]
    lost = [_lost(_early(reference), _drained(each, size)) for each in outcomes]
    assert np.mean(lost) < 0.08
    if size >= 300:
        assert not np.any(lost)


@pytest.mark.parametrize("seed", range(3))
def test_it_says_so_soon_and_takes_it_back_when_order_returns(reference, seed):
    early = _early(reference)
    _lost(early, _drained(make_stream(300, 0.4, 20 + seed), 60))
    gone = _lost(early, _drained(make_stream(250, -0.1, 30 + seed, start=300), 60))
    assert gone.index(True) < 120
    assert np.mean(gone[120:]) > 0.9
    back = _lost(early, _drained(make_stream(600, 0.4, 40 + seed, start=550), 60))
    assert np.mean(back[150:]) < 0.1


def test_half_of_the_order_is_for_the_alarm_to_find(reference):
    assert np.mean(_lost(_early(reference), make_stream(3000, 0.25, 7))) < 0.05


def test_the_first_outcomes_have_too_few_to_be_compared_with(reference):
    early = _early(reference)
    assert not any(_lost(early, make_stream(CONFIG.early.neighbours, -0.9, 2)))
    assert not any(_lost(Early(CONFIG.early), make_stream(500, -0.9, 3)))


def test_forecasts_that_are_all_alike_say_nothing_and_end_it(reference):
    """A job of one kind, or a limit that cuts all, cannot keep it on for ever."""
    early = _early(reference)
    _lost(early, make_stream(100, 0.4, 8))
    assert _lost(early, make_stream(300, -0.5, 9))[-1]
    same = make_stream(1, 0.4, 10)[0]
    alike = [dataclasses.replace(same, output_tokens=50 + i) for i in range(200)]
    assert not _lost(early, alike)[-1]


def test_a_fit_needs_forecasts_that_differ_and_order_and_is_repeatable(reference):
    size = CONFIG.chart.bootstrap

    def fit(outcomes):
        return EarlyFit.of(sample_of(outcomes), CONFIG.early, size)

    outcomes = make_stream(1000, 0.4, 1)
    assert fit(outcomes) == reference.early
    assert fit(make_stream(600, -0.3, 2)) is None
    alike = [dataclasses.replace(o, forecast=outcomes[0].forecast) for o in outcomes]
    assert fit(alike) is None
    apart = np.subtract.outer(*[[o.forecast.score for o in outcomes]] * 2)
    assert np.mean(np.abs(apart) < reference.early.gap) == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"share": 1.0}, "early.share"),
        ({"alike": 0.0}, "early.alike"),
        ({"neighbours": 0}, "early.neighbours"),
        ({"silent": 0}, "early.silent"),
        ({"arl": 1.0}, "early.arl"),
        ({"shar": 0.5}, "early.shar is not a setting"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(values, named):
    with pytest.raises(ValueError, match=named):
        MonitorConfig.from_mapping({"early": values})


def test_a_monitor_sees_it_before_order_of_arrival_is_back(reference):
    """No state is moved by it: the alarm comes when the chart has seen them in their order."""
    monitor = Monitor(CONFIG, {KEY: reference})
    for outcome in _drained(make_stream(1800, 0.4, 4), 60):
        monitor.update(outcome)
    assert not monitor.early(KEY)
    early, alarm = [], []
    for outcome in _drained(make_stream(400, -0.3, 5, start=1800), 60):
        monitor.update(outcome)
        early.append(monitor.early(KEY))
        alarm.append(monitor.snapshot("m").state >= State.DEGRADED)
    assert early.index(True) + 30 < alarm.index(True)


def test_a_slice_has_a_chart_of_its_own():
    def of(tenant, outcomes):
        return [dataclasses.replace(o, tenant=tenant) for o in outcomes]

    def mixed(count, taus, start):
        parts = [
            of(tenant, make_stream(count, tau, 50 + i + start, start=start))
            for i, (tenant, tau) in enumerate(taus.items())
        ]
        return [
            dataclasses.replace(o, request_id=f"{o.tenant}-{start}-{number}")
            for number, both in enumerate(zip(*parts, strict=True))
            for o in both
        ]

    keys = {tenant: KEY.part("", tenant) for tenant in ("a", "b")}
    known = {key: Reference.learn(make_stream(1000, 0.4, 1), CONFIG) for key in keys.values()}
    monitor = Monitor(CONFIG, known)
    for outcome in mixed(500, {"a": 0.4, "b": 0.4}, 0):
        monitor.update(outcome)
    for outcome in mixed(150, {"a": 0.4, "b": -0.4}, 500):
        monitor.update(outcome)
    assert monitor.early(keys["b"])
    assert not monitor.early(keys["a"])


def test_references_of_before_are_read_and_have_none(reference, tmp_path):
    path = tmp_path / "references.json"
    save_references(path, {KEY: reference})
    assert load_references(path) == {KEY: reference}
    without = dataclasses.replace(reference, early=None)
    save_references(path, {KEY: without})
    path.write_text(path.read_text().replace('"early": null', '"outcomes": 1000'))
    assert load_references(path) == {KEY: without}
    assert not any(_lost(_early(without), make_stream(500, -0.5, 6)))
