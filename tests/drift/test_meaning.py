"""Shifts of meaning: found where sketches move and nothing else does, told of nobody else."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

from drift.baselines_file import load_baselines, save_baselines
from drift.config import MonitorConfig
from drift.detectors.concordance_cusum import ChartConfig
from drift.features import Baselines, Columns
from drift.key import Key
from drift.meaning import POINTS, Meaning
from drift.metrics import DriftCollector
from drift.monitor import Monitor
from drift.shift import Baseline, chance
from drift.sink import MonitoredStore
from tests.drift.conftest import sketched

#: Learns its reference once, from the first 400.
CONFIG = MonitorConfig(
    window=300, fcfs_least=300, reference_most=400, chart=ChartConfig(streams=24, length=4096)
)
KEY = Key("m", "ranker", "1")


def moved(before, after):
    return Baselines.of(Columns.of(before)).moved(Columns.of(after))


def test_distance_is_the_largest_of_kolmogorov_and_smirnov_s_and_psi_the_largest_psi():
    rng = np.random.default_rng(1)
    before, after = rng.normal(size=(POINTS, 8)), rng.normal(size=(180, 8)) + np.linspace(0, 0.7, 8)
    found = Meaning.of({8: before}).moved({8: after})
    pairs = list(zip(before.T, after.T, strict=True))
    expected = max(stats.ks_2samp(a, b).statistic for a, b in pairs)
    assert found.distance == pytest.approx(expected, abs=1e-12)
    assert found.psi == max(Baseline.of(a).moved(b).psi for a, b in pairs)
    assert (found.reference, found.window) == (POINTS, 180)


def test_a_long_reference_is_thinned_and_the_distance_hardly_off():
    rng = np.random.default_rng(2)
    before, after = rng.normal(size=(1600, 8)), rng.normal(size=(500, 8)) + 0.2
    meaning = Meaning.of({8: before})
    exact = max(stats.ks_2samp(a, b).statistic for a, b in zip(before.T, after.T, strict=True))
    assert meaning.moved({8: after}).distance == pytest.approx(exact, abs=1 / POINTS)
    assert {len(axis.curve.at) for axis in meaning.axes} == {POINTS}


@pytest.mark.parametrize("tests", [1, 8])
def test_chance_is_the_five_percent_level_over_all_axes(tests):
    expected = stats.kstwobign.isf(0.05 / tests) * math.sqrt(1 / 400 + 1 / 500)
    assert chance(400, 500, tests) == pytest.approx(expected, rel=1e-4)
    assert math.isnan(chance(400, 9, tests))


@pytest.mark.parametrize("alike", [False, True])
def test_samples_from_one_distribution_pass_chance_in_five_percent_at_most(alike):
    """Whether the axes say different things or all the same."""
    rng = np.random.default_rng(3)
    passed = []
    for _ in range(300):
        before, after = rng.normal(size=(300, 8)), rng.normal(size=(200, 8))
        if alike:
            before, after = before[:, [0] * 8], after[:, [0] * 8]
        found = Meaning.of({8: before}).moved({8: after})
        passed.append(found.distance > found.chance)
    # Two standard errors above 5 %.
    assert np.mean(passed) < 0.05 + 2 * math.sqrt(0.05 * 0.95 / 300)


def test_a_shift_of_meaning_is_found_where_lengths_and_scores_are_the_same(stream):
    rows = stream(500, 0.4, 1)
    before, after = sketched(rows, 1), sketched(rows, 2, shift=0.5)
    found = moved(before, after)
    assert found["embedding"].distance > 1.5 * found["embedding"].chance
    assert found["embedding"].psi > 0.1
    for name in ("output_tokens", "prompt_tokens", "score", "novelty"):
        assert found[name].distance == 0.0


def test_none_is_found_where_nothing_moved(stream):
    found = moved(sketched(stream(500, 0.4, 1), 1), sketched(stream(500, 0.4, 2), 2))["embedding"]
    assert found.distance < found.chance
    assert found.psi < 0.1


def test_what_has_no_sketch_or_another_length_is_left_out(stream):
    rows = stream(300, 0.4, 1)
    before, after = sketched(rows, 1), sketched(rows, 2, shift=0.5)
    others = [
        *stream(50, 0.4, 3),
        *stream(50, 0.4, 4, scored=False),
        *sketched(stream(50, 0.4, 5), 5, shift=9.0, axes=4),
    ]
    assert moved(others + before, others + after)["embedding"] == moved(before, after)["embedding"]


def test_too_few_say_nothing(stream):
    rows = stream(300, 0.4, 1)
    assert "embedding" not in moved(rows, sketched(rows, 1))
    assert "embedding" not in moved(sketched(rows[:9], 1), sketched(rows, 1))
    found = moved(sketched(rows, 1), sketched(rows[:9], 2))["embedding"]
    assert (found.reference, found.window) == (300, 9)
    assert all(map(math.isnan, (found.psi, found.distance, found.chance)))
    assert moved(sketched(rows, 1), rows)["embedding"].window == 0


def test_it_survives_on_disk(stream, tmp_path):
    path = tmp_path / "b.json"
    baselines = Baselines.of(Columns.of(sketched(stream(900, 0.4, 1), 1)))
    save_baselines(path, {KEY: baselines})
    after = Columns.of(sketched(stream(500, 0.4, 2), 2, shift=0.3))
    again = load_baselines(path)[KEY]
    assert again.moved(after)["embedding"] == baselines.moved(after)["embedding"]


def test_a_file_from_before_goes_on_without_and_a_damaged_one_is_refused(stream, tmp_path):
    path = tmp_path / "b.json"
    after = sketched(stream(500, 0.4, 2), 2)
    save_baselines(path, {KEY: Baselines.of(Columns.of(sketched(stream(500, 0.4, 1), 1)))})
    (item,) = json.loads(path.read_text())
    for damage in (3, [3], "axes", [{"at": []}], {"axes": 1}):
        path.write_text(json.dumps([{**item, "embedding": damage}]))
        with pytest.raises(ValueError, match="delete it"):
            load_baselines(path)
    del item["embedding"]
    path.write_text(json.dumps([item]))
    found = load_baselines(path)[KEY].moved(Columns.of(after))
    assert "embedding" not in found
    assert found["score"].distance < 1.0


def test_it_is_no_loss_of_order_and_changes_no_state(stream):
    rows = stream(800, 0.4, 1)
    told = []
    for outcomes in (rows, sketched(rows[:400], 1) + sketched(rows[400:], 2, shift=3.0)):
        monitor = Monitor(CONFIG)
        events = [event for o in outcomes for event in monitor.update(o)] + monitor.flush()
        told.append((events, [(s.state, s.chart) for s in monitor.snapshots()]))
    (shift,) = [s for s in monitor.view().shifts(KEY) if s.name == "embedding"]
    assert shift.distance > 0.5
    assert shift.psi > 1.0
    assert told[0] == told[1]


@pytest.mark.parametrize("embeds", [True, False])
def test_it_is_shown_of_rankers_that_have_an_embedding_and_of_no_other(stream, tmp_path, embeds):
    rows = stream(700, 0.4, 1)
    if embeds:
        rows = sketched(rows[:400], 1) + sketched(rows[400:], 2, shift=2.0)
    path = tmp_path / "o.db"
    for _ in range(2):  # and after a restart, which weighs stored outcomes again
        sink = MonitoredStore.open(path, tmp_path / "e.jsonl", lambda: 0.0, CONFIG)
        sink.store(rows)
        (model,) = sink.board().models
        names = [shift.name for shift in model.shifts]
        samples = {
            (s.name, s.labels["feature"]): s.value
            for family in DriftCollector(sink).collect()
            for s in family.samples
            if "feature" in s.labels
        }
        sink.close()
        assert ("embedding" in names) == embeds
        assert (("shortfirst_drift_shift_psi", "embedding") in samples) == embeds
        assert not any(map(math.isnan, samples.values()))
        if embeds:
            assert samples["shortfirst_drift_shift_distance", "embedding"] > 0.5
            assert model.overall.input_shift == samples["shortfirst_drift_shift_psi", "embedding"]
