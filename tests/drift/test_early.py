"""Order that is lost, told by outcomes as they end; and bursts, which are no loss of order."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from drift.config import MonitorConfig
from drift.detectors.observation import Observation
from drift.early import Early
from drift.key import Key
from drift.monitor import Monitor
from drift.reference import Reference, load_references, save_references
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
    early = Early(CONFIG.chart.neighbours)
    early.use(reference.early)
    return early


def _lost(early, outcomes):
    """Of each outcome, whether order seemed lost after it."""
    found = []
    for outcome in outcomes:
        early.update(Observation.of(outcome))
        found.append(early.lost)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_bursts_that_are_drained_in_order_of_forecasts_are_hardly_ever_taken_for_a_loss(
    reference, seed
):
    outcomes = make_stream(3000, 0.4, 10 + seed)
    assert np.mean(_lost(_early(reference), _drained(outcomes, 60))) < 0.05
    # The chart that asks for less takes longer bursts for one much of the time.
    other = dataclasses.replace(reference, early=reference.calibration)
    long = _drained(outcomes, 120)
    assert np.mean(_lost(_early(reference), long)) < np.mean(_lost(_early(other), long)) - 0.05


@pytest.mark.parametrize("seed", range(3))
def test_it_says_so_soon_and_takes_it_back_when_order_returns(reference, seed):
    early = _early(reference)
    _lost(early, _drained(make_stream(300, 0.4, 20 + seed), 60))
    gone = _lost(early, _drained(make_stream(200, -0.1, 30 + seed, start=300), 60))
    assert gone.index(True) < 100
    assert np.mean(gone[100:]) > 0.9
    back = _lost(early, _drained(make_stream(600, 0.4, 40 + seed, start=500), 60))
    assert np.mean(back[100:]) < 0.1


def test_the_first_outcomes_have_too_few_to_be_compared_with(reference):
    early = _early(reference)
    against = make_stream(CONFIG.chart.neighbours, -0.9, 2)
    assert not any(_lost(early, against))
    nothing = Early(CONFIG.chart.neighbours)
    assert not any(_lost(nothing, make_stream(500, -0.9, 3)))


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
