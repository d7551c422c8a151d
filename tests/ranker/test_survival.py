from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import CensoredData, ecdf

from ranker.survival import survival_at, survival_curve, weighted_quantiles
from ranker.types import LEVELS


def test_without_censoring_they_are_the_empirical_quantiles():
    y = np.random.default_rng(0).lognormal(5, 1, 500)
    found = weighted_quantiles(y, np.zeros(500, bool), np.ones(500), LEVELS)
    assert found == pytest.approx(np.quantile(y, LEVELS, method="inverted_cdf"))


@pytest.mark.filterwarnings("ignore")
def test_the_curve_is_scipys_kaplan_meier():
    rng = np.random.default_rng(1)
    length, bound = rng.integers(1, 60, 400), rng.integers(1, 60, 400)
    y, c = np.minimum(length, bound).astype(float), length > bound
    reference = ecdf(CensoredData(uncensored=y[~c], right=y[c])).sf
    for threshold in (3.0, 17.0, 30.0, 44.0):
        assert survival_at(y, c, threshold) == pytest.approx(reference.evaluate(threshold))


def test_a_whole_weight_is_a_repeated_row():
    y = np.array([5.0, 9.0, 9.0, 20.0, 31.0])
    c = np.array([False, False, True, False, False])
    times = np.array([1, 3, 2, 4, 1])
    weighted = weighted_quantiles(y, c, times, LEVELS)
    repeated = weighted_quantiles(
        np.repeat(y, times), np.repeat(c, times), np.ones(times.sum()), LEVELS
    )
    assert weighted == pytest.approx(repeated)


def test_a_limit_in_the_log_is_not_the_longest_answer():
    rng = np.random.default_rng(2)
    true = rng.exponential(500, 4000)
    y, c = np.minimum(true, 700), true > 700
    found = weighted_quantiles(y, c, np.ones(4000), LEVELS)
    # Below the limit nothing is assumed; beyond it an exponential, which here is the truth.
    assert found == pytest.approx(np.quantile(true, LEVELS), rel=0.12)
    assert found[-1] > 700


def test_only_bounds_still_give_finite_ascending_quantiles():
    found = weighted_quantiles([64.0] * 30, [True] * 30, np.ones(30), LEVELS)
    assert np.all(np.isfinite(found))
    assert np.all(np.diff(found) >= 0)
    assert found[0] >= 64.0


def test_no_weight_is_refused():
    with pytest.raises(ValueError, match="positive weight"):
        weighted_quantiles([1.0], [False], [0.0], (0.5,))


def test_curve_of_nothing_is_empty():
    values, survival = survival_curve([], [])
    assert len(values) == len(survival) == 0
