from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from drift.tau import kendall_tau

ROWS = st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 6), st.booleans()), max_size=40)


def _by_pairs(rows):
    """The definition, pair by pair."""
    plus = minus = score_tied = length_tied = 0
    for i, (s, y, c) in enumerate(rows):
        for s2, y2, c2 in rows[:i]:
            if not c and not c2 and y == y2:
                length_tied += s != s2
                continue
            longer = None
            if not c2 and (y > y2 or (c and y == y2)):
                longer = True
            elif not c and (y2 > y or (c2 and y == y2)):
                longer = False
            if longer is None:
                continue
            agree = (s > s2) - (s < s2) if longer else (s < s2) - (s > s2)
            plus += agree > 0
            minus += agree < 0
            score_tied += agree == 0
    decided = plus + minus + score_tied
    scale = math.sqrt(decided * (plus + minus + length_tied))
    return ((plus - minus) / scale if scale else math.nan), decided


@given(ROWS)
@settings(max_examples=300, deadline=None)
def test_value_and_pairs_follow_the_definition(rows):
    tau = kendall_tau(*([row[k] for row in rows] for k in range(3)))
    value, pairs = _by_pairs(rows)
    assert tau.pairs == pairs
    assert tau.value == pytest.approx(value, abs=1e-12, nan_ok=True)


@given(ROWS)
@settings(max_examples=200, deadline=None)
def test_without_censoring_it_is_the_tau_b_of_scipy(rows):
    scores, tokens = [r[0] for r in rows], [r[1] for r in rows]
    tau = kendall_tau(scores, tokens)
    if len(set(scores)) > 1 and len(set(tokens)) > 1:
        assert tau.value == pytest.approx(stats.kendalltau(scores, tokens).statistic, abs=1e-12)
    else:
        assert not tau.defined


@pytest.mark.parametrize("n", [1000, 20_000])
def test_large_samples_agree_with_scipy(n):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=n).round(2)
    tokens = (np.exp(0.4 * scores + rng.normal(size=n)) * 50).astype(int)
    tau = kendall_tau(scores, tokens)
    assert tau.value == pytest.approx(stats.kendalltau(scores, tokens).statistic, abs=1e-12)


@pytest.mark.parametrize("censor_above", [None, 60])
def test_the_interval_covers_as_often_as_it_says(censor_above):
    rng = np.random.default_rng(1)
    found = []
    for _ in range(400):
        scores = rng.normal(size=200)
        tokens = (np.exp(0.6 * scores + rng.normal(size=200)) * 20).astype(int)
        censored = np.zeros(200, bool) if censor_above is None else tokens >= censor_above
        tokens = tokens if censor_above is None else np.minimum(tokens, censor_above)
        found.append(kendall_tau(scores, tokens, censored))
    centre = np.mean([t.value for t in found])
    covered = np.mean([t.low <= centre <= t.high for t in found])
    assert 0.92 <= covered <= 0.98
    spread = np.std([t.value for t in found])
    assert np.mean([t.standard_error for t in found]) == pytest.approx(spread, rel=0.12)


def test_the_standard_error_is_the_jackknife_one():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=150)
    tokens = (np.exp(0.5 * scores + rng.normal(size=150)) * 20).astype(int)
    keep = ~np.eye(150, dtype=bool)
    left_out = np.array([stats.kendalltau(scores[k], tokens[k]).statistic for k in keep])
    jackknife = math.sqrt(149 / 150 * ((left_out - left_out.mean()) ** 2).sum())
    assert kendall_tau(scores, tokens).standard_error == pytest.approx(jackknife, rel=0.03)


def test_a_lower_bound_counts_only_against_shorter_answers():
    # 100+ against 50: longer. 100+ against 200: unknown. 100+ against 100: longer.
    tau = kendall_tau([3.0, 1.0, 2.0, 0.0], [100, 50, 200, 100], [True, False, False, False])
    assert tau.pairs == 2 + 3
    assert kendall_tau([1.0, 2.0], [10, 20], [True, True]).defined is False


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([1.0], [1, 2]), "one length"),
        (([math.nan, 1.0], [1, 2]), "finite"),
        (([1.0, 2.0], [1, 2], None, 1.0), "confidence"),
    ],
)
def test_bad_input_is_named(arguments, text):
    with pytest.raises(ValueError, match=text):
        kendall_tau(*arguments)
