from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from drift.baselines_file import load_baselines, save_baselines
from drift.features import Baselines, Columns
from drift.kaplan_meier import Curve
from drift.key import Key
from drift.shift import Baseline


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=80))
@settings(max_examples=200, deadline=None)
def test_the_curve_is_that_of_kaplan_and_meier(rows):
    values = np.array([v for v, _ in rows], dtype=float)
    censored = np.array([c for _, c in rows])
    curve = Curve.of(values, censored)
    points = np.arange(-1.0, 22.0)
    if censored.all():
        assert not curve(points).any()
        return
    data = stats.CensoredData(uncensored=values[~censored], right=values[censored])
    assert curve(points) == pytest.approx(stats.ecdf(data).cdf.evaluate(points), abs=1e-12)


def test_distance_is_that_of_kolmogorov_and_smirnov():
    rng = np.random.default_rng(1)
    before, after = rng.lognormal(5.0, 1.0, 800), rng.lognormal(5.3, 1.0, 400)
    found = Baseline.of(before).moved(after)
    assert found.distance == pytest.approx(stats.ks_2samp(before, after).statistic, abs=1e-12)
    assert (found.reference, found.window) == (800, 400)
    assert found.distance > found.chance


def test_psi_by_hand():
    before = np.repeat(np.arange(10.0), 10)
    after = np.repeat([0.0, 9.0], [30, 70])
    p, q = np.full(10, 0.1), np.full(10, 0.005)
    q[0], q[9] = 0.3, 0.7
    q /= q.sum()
    expected = ((q - p) * np.log(q / p)).sum()
    assert Baseline.of(before).moved(after).psi == pytest.approx(expected, rel=1e-9)


def test_like_samples_hardly_move_and_chance_is_five_percent():
    rng = np.random.default_rng(2)
    found = [Baseline.of(rng.normal(size=1000)).moved(rng.normal(size=500)) for _ in range(300)]
    assert np.percentile([m.psi for m in found], 95) < 0.1
    assert np.mean([m.distance > m.chance for m in found]) == pytest.approx(0.05, abs=0.03)


def test_a_token_limit_is_no_shift():
    rng = np.random.default_rng(3)
    lengths = rng.lognormal(5.0, 1.0, 3000).round()
    before, after = lengths[:1500], lengths[1500:]
    cut = np.minimum(after, 200.0)
    found = Baseline.of(before).moved(cut, after >= 200.0)
    naive = Baseline.of(before).moved(cut)
    assert found.distance < found.chance
    assert naive.distance > 2 * found.distance


def test_too_few_say_nothing_and_what_is_constant_does_not_move():
    assert math.isnan(Baseline.of(np.arange(100.0)).moved(np.arange(5.0)).psi)
    assert math.isnan(Baseline.of([]).moved(np.arange(50.0)).distance)
    still = Baseline.of(np.zeros(500)).moved(np.zeros(100))
    assert still.psi == pytest.approx(0.0, abs=0.01)
    assert still.distance == 0.0
    moved = Baseline.of(np.zeros(500)).moved(np.ones(100))
    assert moved.psi > 1.0
    assert moved.distance == 1.0


def test_baselines_survive_on_disk(stream, tmp_path):
    path = tmp_path / "où" / "b.json"
    before, after = stream(900, 0.4, 1, limit=300), stream(500, 0.4, 2)
    key = Key("m", "r", "1", "lane", "tenant")
    baselines = Baselines.of(Columns.of(before))
    assert load_baselines(path) == {}
    save_baselines(path, {key: baselines, Key("e", "", ""): Baselines.of(Columns.of([]))})
    again = load_baselines(path)
    assert set(again) == {key, Key("e", "", "")}
    old, new = baselines.moved(Columns.of(after)), again[key].moved(Columns.of(after))
    for name, moved in old.items():
        assert new[name].psi == pytest.approx(moved.psi)
        assert new[name].distance == pytest.approx(moved.distance, abs=1 / 256)
    path.write_text('[{"key": 1}]')
    with pytest.raises(ValueError, match="delete it"):
        load_baselines(path)
