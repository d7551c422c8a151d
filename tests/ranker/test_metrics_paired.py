from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kendalltau

from ranker.metrics import paired


def two(n: int, seed: int, noise_a: float = 1.0, noise_b: float = 1.0):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    a, b = (y + noise * rng.normal(size=n) for noise in (noise_a, noise_b))
    return a, b, np.round(np.exp(4 + y))


def test_it_is_scipys_difference_and_bootstrap():
    a, b, y = two(80, 0, 1.0, 2.0)
    found = paired(a, b, y, resamples=2000)
    taus = [kendalltau(s, y).statistic for s in (a, b)]
    assert (found.a, found.b) == pytest.approx(tuple(taus))
    assert found.value == pytest.approx(taus[0] - taus[1])
    rng = np.random.default_rng(5)
    gaps = []
    for _ in range(1000):
        rows = rng.integers(80, size=80)
        gaps.append(kendalltau(a[rows], y[rows])[0] - kendalltau(b[rows], y[rows])[0])
    low, high = np.quantile(gaps, (0.025, 0.975))
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.03)
    assert found.p == pytest.approx(2 * np.mean(np.array(gaps) <= 0), abs=0.02)


def test_pairing_sees_what_two_intervals_cannot():
    a, _, y = two(400, 1)
    b = a + 0.3 * np.random.default_rng(2).normal(size=400)
    found = paired(a, b, y)
    assert found.low > 0
    assert found.p < 0.05
    assert found.high - found.low < 0.05  # either alone is known to .08 only


def test_equals_are_told_apart_about_as_rarely_as_the_p_value_says():
    found = [paired(*two(120, seed), seed=seed, resamples=300) for seed in range(100)]
    assert np.count_nonzero([d.p < 0.05 for d in found]) <= 12  # 5%, three standard errors above
    assert np.count_nonzero([d.low < 0 < d.high for d in found]) >= 88


def test_the_same_order_differs_by_nothing():
    a, _, y = two(100, 3)
    found = paired(a, 2 * a + 1, y)
    assert (found.value, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_answers_to_one_prompt_are_one_piece_of_evidence():
    a, b, y = (np.repeat(part, 8) for part in two(60, 4, 1.0, 1.4))
    prompt = np.repeat(np.arange(60), 8)
    rows, clusters = paired(a, b, y), paired(a, b, y, clusters=prompt)
    assert clusters.value == rows.value
    assert clusters.high - clusters.low > 2 * (rows.high - rows.low)


def test_censored_pairs_that_nobody_can_order_do_not_count():
    a, b, y = two(120, 5, 0.5, 2.0)
    cut = y > np.quantile(y, 0.7)
    bounds = np.minimum(y, np.quantile(y, 0.7))
    found = paired(a, b, bounds, cut)
    scrambled = np.where(cut, np.random.default_rng(0).permutation(a), a)
    assert found.value > 0
    assert paired(a, a, bounds, cut).value == 0
    assert found.a > paired(scrambled, b, bounds, cut).a  # against the others they do


def test_a_part_of_many_rows_says_the_same_of_them_all():
    a, b, y = two(2500, 6, 1.0, 1.1)
    whole = paired(a, b, y, resamples=300, most_rows=2500)
    part = paired(a, b, y, resamples=300, most_rows=500)
    assert part.value == whole.value
    assert part.high - part.low == pytest.approx(whole.high - whole.low, rel=0.35)


def test_no_order_is_tau_0_and_no_lengths_are_none():
    a, _, y = two(50, 7)
    assert paired(a, np.zeros(50), y).b == 0
    assert math.isnan(paired(a, np.zeros(50), np.ones(50)).value)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="one length"):
        paired([1, 2], [1], [1, 2])
    with pytest.raises(ValueError, match="finite"):
        paired([1, 2], [1, math.nan], [1, 2])
