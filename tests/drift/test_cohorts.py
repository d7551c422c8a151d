from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from drift.cohorts import coverage, measure
from drift.efficiency import ReplayConfig, efficiency
from ranker.types import FinishReason


def test_statistics_of_a_cohort(stream):
    rows = stream(300, 0.4, 1) + stream(100, 0.4, 2, start=300, scored=False)
    cohort = measure(rows)
    scored = rows[:300]
    expected = stats.kendalltau(
        [o.forecast.score for o in scored], [o.output_tokens for o in scored]
    ).statistic
    assert cohort.tau.value == pytest.approx(expected, abs=1e-12)
    assert (cohort.outcomes, cohort.scored, cohort.unscored_share) == (400, 300, 0.25)
    assert cohort.coverage_p50 == pytest.approx(
        np.mean([o.output_tokens <= o.forecast.median for o in scored])
    )
    assert (cohort.first_arrival, cohort.last_arrival) == (rows[0].arrival, rows[-1].arrival)


def test_an_empty_cohort_knows_nothing():
    cohort = measure([])
    assert math.isnan(cohort.unscored_share)
    assert math.isnan(cohort.coverage_p50)
    assert not cohort.tau.defined


def test_coverage_under_censoring_is_that_of_kaplan_and_meier(stream):
    rows = stream(400, 0.4, 3, limit=150)
    ratios = np.array([o.output_tokens / o.forecast.quantile(0.5) for o in rows])
    censored = np.array([o.finish_reason.censored for o in rows])
    data = stats.CensoredData(uncensored=ratios[~censored], right=ratios[censored])
    expected = float(stats.ecdf(data).cdf.evaluate(1.0))
    assert coverage(rows, 0.5) == pytest.approx(expected, abs=1e-9)
    # Counting lower bounds as lengths would claim more than is known.
    naive = np.mean(ratios <= 1.0)
    assert abs(coverage(rows, 0.5) - 0.5) < abs(naive - 0.5)


def test_coverage_is_unknown_when_every_answer_was_cut_below_its_quantile(stream):
    rows = [
        dataclasses.replace(o, output_tokens=1, finish_reason=FinishReason.ABORT)
        for o in stream(20, 0.4, 4)
    ]
    assert math.isnan(coverage(rows, 0.9))


def test_efficiency_falls_with_the_order(stream):
    found = [efficiency(stream(500, tau, 5)).e2el for tau in (0.0, 0.4, 0.8)]
    assert found == sorted(found)
    assert found[0] == pytest.approx(0.0, abs=0.2)
    assert found[2] > 0.7


def test_without_forecasts_order_is_that_of_arrival(stream):
    worth = efficiency(stream(300, 0.4, 6, scored=False))
    assert worth.e2el == pytest.approx(0.0, abs=1e-9)


def test_too_few_outcomes_say_nothing(stream):
    assert efficiency(stream(99, 0.4, 7)) is None
    with pytest.raises(ValueError, match="utilisation"):
        ReplayConfig(utilisation=0.0)
