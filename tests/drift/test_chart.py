from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from drift.detectors.concordance import Concordance, concordances
from drift.detectors.concordance_cusum import ChartConfig, ConcordanceDetector, calibrate
from drift.detectors.cusum import Cusum
from drift.detectors.observation import Observation
from drift.detectors.sample import Sample


def _sample(n, slope, seed, censor=None):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    tokens = (np.exp(slope * scores + rng.normal(size=n)) * 100).astype(np.int64)
    censored = np.zeros(n, bool) if censor is None else tokens >= censor
    return Sample(scores, tokens if censor is None else np.minimum(tokens, censor), censored)


@pytest.mark.parametrize("neighbours", [1, 8, 32])
def test_the_vectorised_concordance_is_the_streaming_one(neighbours):
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 9, (120, 3)).astype(float)
    tokens = rng.integers(0, 9, (120, 3))
    censored = rng.random((120, 3)) < 0.4
    together = concordances(scores, tokens, censored, neighbours)
    for k in range(3):
        one = Concordance(neighbours)
        for t in range(120):
            x = one.update(float(scores[t, k]), int(tokens[t, k]), bool(censored[t, k]))
            assert together[t, k] == pytest.approx(np.nan if x is None else x, nan_ok=True)


def test_mean_concordance_of_continuous_lengths_is_tau():
    sample = _sample(6000, 0.6, 4)
    x = concordances(
        sample.scores[:, None], sample.tokens[:, None] * 1000, sample.censored[:, None], 32
    )
    rho = 0.6 / np.hypot(0.6, 1.0)
    assert np.nanmean(x) == pytest.approx(2 / np.pi * np.arcsin(rho), abs=0.02)


def test_concordance_does_not_see_a_change_of_scale():
    sample = _sample(300, 0.6, 5)
    args = (sample.scores[:, None], sample.censored[:, None])
    one = concordances(args[0], sample.tokens[:, None], args[1], 32)
    two = concordances(args[0], sample.tokens[:, None] * 3, args[1], 32)
    np.testing.assert_array_equal(one, two)


def test_chart_rises_below_the_allowance_and_knows_when_it_left_zero():
    chart = Cusum(ceiling=2.0)
    for x in (0.5, 0.5):
        chart.add(0.25 - x)
    assert (chart.value, chart.since_zero) == (0.0, 0)
    for _ in range(4):
        chart.add(0.25)
    assert chart.value == pytest.approx(1.0)
    assert chart.since_zero == 4
    for _ in range(50):
        chart.add(1.25)
    assert chart.value == 2.0
    for _ in range(20):
        chart.add(-0.15)
    assert chart.value == 0.0


def test_an_outcome_without_decided_pairs_leaves_the_chart_where_it_is():
    detector = ConcordanceDetector(allowance=0.3, limit=2.0, neighbours=4)
    for score, tokens in ((1.0, 10), (2.0, 5)):  # in the wrong order: concordance -1
        detector.update(Observation(score, tokens, False, 0.5, 0.0))
    assert detector.height == pytest.approx(1.3)
    detector.update(Observation(3.0, 1, True, 0.5, 0.0))  # may have gone on past the others
    assert detector.height == pytest.approx(1.3)
    assert not detector.drift_detected
    detector.relearn(0.3, 1.0)
    detector.update(Observation(0.0, 20, False, 0.5, 0.0))
    assert detector.drift_detected


def _alarms(sample, calibration, streams, length, seed, neighbours=32):
    """Alarms a million outcomes of fresh independent draws, restarted after each."""
    rng = np.random.default_rng(seed)
    index = rng.integers(0, len(sample), (length, streams))
    x = concordances(sample.scores[index], sample.tokens[index], sample.censored[index], neighbours)
    counts = [0] * len(calibration.limits)
    for i, limit in enumerate(calibration.limits):
        value = np.zeros(streams)
        for row in np.nan_to_num(x, nan=calibration.allowance):
            value = np.maximum(0.0, value + calibration.allowance - row)
            counts[i] += int((value >= limit).sum())
            value[value >= limit] = 0.0
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("censor", [None, 250])
def test_false_alarms_are_as_rare_as_asked_for(censor):
    sample = _sample(1500, 0.62, 6, censor)
    config = ChartConfig(caution=0.0)
    calibration = calibrate(sample, (5_000.0, 20_000.0), config)
    often, seldom = _alarms(sample, calibration, 128, 8192, 7)
    outcomes = 128 * 8192
    assert 3_000 < outcomes / often < 25_000
    assert 10_000 < outcomes / max(seldom, 1) < 120_000
    assert calibration.limits[0] < calibration.limits[1]


def test_a_short_reference_is_taken_for_worse_than_it_looks():
    sample = _sample(400, 0.62, 8)
    plain = calibrate(sample, (5e4,), ChartConfig(caution=0.0, streams=16, length=2048))
    careful = calibrate(sample, (5e4,), ChartConfig(caution=1.0, streams=16, length=2048))
    assert careful.allowance < plain.allowance
    assert careful.allowance == pytest.approx(
        0.7 * (careful.concordance - careful.standard_error), abs=1e-9
    )


def test_a_reference_in_perfect_order_has_limits_too():
    tokens = np.random.default_rng(12).permutation(400).astype(np.int64)
    perfect = Sample(tokens.astype(np.float64), tokens, np.zeros(400, bool))
    calibration = calibrate(perfect, (5e4, 2e5), ChartConfig(streams=8, length=1024))
    assert calibration.concordance == 1.0
    assert calibration.limits == pytest.approx([32 * calibration.allowance] * 2)


def test_calibration_is_repeatable_and_refuses_what_orders_nothing():
    config = ChartConfig(streams=8, length=1024)
    sample = _sample(400, 0.62, 9)
    assert calibrate(sample, (5e4,), config) == calibrate(sample, (5e4,), config)
    with pytest.raises(ValueError, match="no better than chance"):
        calibrate(_sample(400, -0.3, 10), (5e4,), config)
    with pytest.raises(ValueError, match="neighbours"):
        calibrate(_sample(20, 0.6, 11), (5e4,), config)
    censored = dataclasses.replace(sample, censored=np.ones(400, bool))
    with pytest.raises(ValueError, match="no pair"):
        calibrate(censored, (5e4,), config)


@pytest.mark.parametrize(
    ("field", "value"),
    [("neighbours", 0), ("share", 1.0), ("caution", -1.0), ("blocks", ()), ("length", 10)],
)
def test_settings_are_checked_by_name(field, value):
    with pytest.raises(ValueError, match=field):
        ChartConfig(**{field: value})
