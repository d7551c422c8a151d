from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranker.calibration import Calibration, CalibrationConfig, fit, pinball
from ranker.metrics import coverage
from ranker.prediction import Prediction
from ranker.types import LEVELS


def draw(n: int, knows: float, seed: int, limit: float = math.inf):
    """Scores that explain the share ``knows`` of the variance of log lengths."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n)
    log = 5 + math.sqrt(knows) * score + math.sqrt(1 - knows) * rng.normal(size=n)
    length = np.ceil(np.exp(log))
    return score, np.minimum(length, limit), length > limit


def test_held_out_coverage_is_what_the_levels_say():
    calibration = fit(*draw(1500, 0.4, 0))
    score, tokens, censored = draw(6000, 0.4, 1)
    shares, told = coverage(calibration.quantiles(Prediction(score)), tokens, censored, LEVELS)
    assert shares == pytest.approx(LEVELS, abs=0.03)
    assert np.all(told == 6000)


def test_coverage_holds_within_a_part_of_the_scores_too():
    calibration = fit(*draw(3000, 0.5, 2))
    score, tokens, censored = draw(8000, 0.5, 3)
    for part in (score < -0.7, score > 0.7):
        shares, _ = coverage(
            calibration.quantiles(Prediction(score[part])), tokens[part], censored[part], LEVELS
        )
        assert shares == pytest.approx(LEVELS, abs=0.07)


@pytest.mark.parametrize("seed", range(4))
def test_a_ranker_that_knows_nothing_gives_everybody_the_marginal(seed: int):
    score, tokens, censored = draw(900, 0.0, seed)
    table = fit(score, tokens, censored).quantiles(Prediction(np.linspace(-3, 3, 50)))
    marginal = np.quantile(tokens, LEVELS, method="inverted_cdf")
    spread = np.log(table[-1] / table[0])
    assert np.all(spread[2:9] < 0.45)  # lengths themselves spread by e^2.6 between p10 and p90
    assert np.log(table[25][2:9] / marginal[2:9]) == pytest.approx(0, abs=0.2)


def test_constant_scores_give_exactly_the_marginal():
    _, tokens, censored = draw(300, 0.0, 0)
    table = fit(np.zeros(300), tokens, censored).quantiles(Prediction(np.array([-1.0, 0.0, 9.0])))
    marginal = np.quantile(tokens, LEVELS, method="inverted_cdf")
    assert table == pytest.approx(np.tile(marginal, (3, 1)), rel=1e-9)


def test_censored_rows_are_bounds():
    score, tokens, censored = draw(4000, 0.4, 5, limit=250)
    assert 0.2 < censored.mean() < 0.4
    quantiles = fit(score, tokens, censored).quantiles(Prediction(score))
    truth = draw(4000, 0.4, 5)[1]
    shares, _ = coverage(quantiles, truth, np.zeros(4000, bool), LEVELS)
    assert shares[:7] == pytest.approx(LEVELS[:7], abs=0.04)  # up to .6, below the limit
    naive = fit(score, tokens, np.zeros(4000, bool)).quantiles(Prediction(score))
    assert np.all(quantiles.mean(axis=0)[-3:] > naive.mean(axis=0)[-3:])


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_data_gives_quantiles_that_ascend_by_score_and_level(data: st.DataObject):
    n = data.draw(st.integers(20, 80))
    whole = st.lists(st.integers(0, 5000), min_size=n, max_size=n)
    scores, tokens = data.draw(whole), data.draw(whole)
    censored = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    config = CalibrationConfig(knots=7, bandwidths=(0.1, 0.3), folds=3)
    table = fit(scores, tokens, censored, config).quantiles(Prediction(np.linspace(-10, 6000, 200)))
    assert np.all(np.isfinite(table))
    assert np.all(np.diff(table, axis=1) >= 0)
    assert np.all(np.diff(table, axis=0) >= -1e-9)


def test_pinball_is_least_at_the_quantile():
    y = np.random.default_rng(0).lognormal(4, 1, 2000)
    free = np.zeros(2000, bool)

    def loss(q: float) -> float:
        return float(pinball(np.full((2000, 1), q), y, free, (0.9,)).mean())

    best = float(np.quantile(y, 0.9))
    assert loss(best) < min(loss(best * 0.8), loss(best * 1.25))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit([1.0] * 5, [1] * 5, [False] * 5), "at least 20 rows"),
        (lambda: fit([1.0] * 30, [1] * 29, [False] * 30), "one length"),
        (lambda: fit([math.nan] * 30, [1] * 30, [False] * 30), "finite"),
        (lambda: CalibrationConfig(knots=1), "calibration.knots"),
        (lambda: CalibrationConfig(bandwidths=()), "calibration.bandwidths"),
        (lambda: CalibrationConfig(levels=()), "calibration.levels"),
        (lambda: CalibrationConfig(levels=(0.5, 0.5)), "calibration.levels"),
        (lambda: CalibrationConfig(levels=(0.5, 1.0)), "calibration.levels"),
        (lambda: CalibrationConfig(levels=(math.nan,)), "calibration.levels"),
        (lambda: Calibration(np.array([0.0, 0.0]), np.ones((2, 1)), (0.5,), 1.0), "ascending"),
        (lambda: Calibration(np.array([0.0]), np.array([[2.0, 1.0]]), (0.1, 0.5), 1.0), "descend"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
