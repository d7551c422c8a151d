from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from ranker.metrics import coverage, order, resampling


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=2, max_size=40))
def test_tau_is_scipys_with_ties(rows):
    scores, tokens = zip(*rows, strict=True)
    expected = kendalltau(scores, tokens).statistic
    found = order(scores, tokens, resamples=0)
    if math.isnan(expected):
        assert math.isnan(found.tau)
    else:
        assert found.tau == pytest.approx(expected)
    assert found.pairs == len(rows) * (len(rows) - 1) // 2


def test_pairs_that_nobody_can_order_are_left_out():
    # Known: 0<1, 0<2, 0<3, 1<2 (cut off at 20, when 1 had ended at 10), 1<3. Not known: 2 and 3.
    found = order([1, 2, 3, 4], [5, 10, 20, 20], [False, False, True, True], resamples=0)
    assert found.pairs == 5
    assert found.tau == pytest.approx(1.0)
    # A bound below the other's length decides nothing.
    assert order([1, 2], [5, 10], [True, False], resamples=0).pairs == 0
    # Cut off exactly where the other ended: the longer one.
    assert order([1, 2], [10, 10], [False, True], resamples=0).tau == pytest.approx(1.0)


def test_accuracy_counts_equal_scores_as_half():
    assert order([1, 1, 2], [1, 2, 3], resamples=0).accuracy == pytest.approx(2.5 / 3)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(3)
    rho = 0.5
    truth = 2 / math.pi * math.asin(rho)
    hits = 0
    for seed in range(120):
        s = rng.normal(size=150)
        y = rho * s + math.sqrt(1 - rho * rho) * rng.normal(size=150)
        found = order(s, y, seed=seed, resamples=200)
        hits += found.low <= truth <= found.high
    assert 104 <= hits <= 120  # 95% of 120 is 114, four standard errors below it 104


def test_the_interval_is_reproducible_and_a_part_of_the_rows_keeps_its_width():
    rng = np.random.default_rng(4)
    s = rng.normal(size=2000)
    y = s + 2 * rng.normal(size=2000)
    whole, again = order(s, y, seed=5), order(s, y, seed=5)
    assert whole == again
    part = order(s, y, seed=5, most_rows=500)
    assert part.tau == whole.tau
    assert part.low < part.tau < part.high
    assert part.high - part.low == pytest.approx(whole.high - whole.low, rel=0.3)


def answers_of_one_prompt(prompts: int, each: int, seed: int):
    """Answers that share their prompt's length, and a score that sees a part of that."""
    rng = np.random.default_rng(seed)
    level = rng.normal(size=prompts)
    score = np.repeat(level + rng.normal(size=prompts), each)
    tokens = np.repeat(level, each) + 0.1 * rng.normal(size=prompts * each)
    return score, tokens, np.repeat(np.arange(prompts), each)


def test_rows_of_one_prompt_are_drawn_together():
    score, tokens, prompt = answers_of_one_prompt(60, 10, 0)
    rows = order(score, tokens, seed=1)
    clusters = order(score, tokens, clusters=prompt, seed=1)
    assert clusters.tau == rows.tau
    # Ten copies of each prompt are no news: the interval is about that of one row a prompt.
    once = order(score[::10], tokens[::10], seed=1)
    assert clusters.high - clusters.low == pytest.approx(once.high - once.low, rel=0.35)
    assert clusters.high - clusters.low > 2 * (rows.high - rows.low)


def test_the_cluster_interval_is_that_of_resampling_clusters_by_hand():
    score, tokens, prompt = answers_of_one_prompt(30, 3, 2)
    rng = np.random.default_rng(0)
    taus = []
    for _ in range(400):
        drawn = rng.integers(30, size=30)
        rows = np.concatenate([np.flatnonzero(prompt == p) for p in drawn])
        taus.append(kendalltau(score[rows], tokens[rows]).statistic)
    found = order(score, tokens, clusters=prompt, seed=0, resamples=2000)
    low, high = np.quantile(taus, (0.025, 0.975))
    assert found.low == pytest.approx(low, abs=0.05)
    assert found.high == pytest.approx(high, abs=0.05)


def test_a_part_of_the_rows_holds_whole_clusters():
    score, tokens, prompt = answers_of_one_prompt(300, 4, 3)
    whole = order(score, tokens, clusters=prompt, seed=4)
    part = order(score, tokens, clusters=prompt, seed=4, most_rows=400)
    assert part.high - part.low == pytest.approx(whole.high - whole.low, rel=0.4)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=60), st.integers(2, 100), st.integers())
def test_a_part_is_small_holds_many_clusters_and_counts_for_them_whole(sizes, most, seed):
    clusters = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    part = resampling.part(clusters, most, np.random.default_rng(abs(seed)))
    assert np.all(np.diff(part.rows) > 0)
    assert part.whole == (len(clusters) <= most) == (len(part.rows) == len(clusters))
    assert len(part.rows) <= most
    inside = np.unique(clusters[part.rows])
    assert len(inside) >= min(len(sizes), most, resampling.LEAST_CLUSTERS)
    counted = np.bincount(clusters[part.rows], part.counts, len(sizes))
    assert counted[inside] == pytest.approx(np.array(sizes)[inside])
    assert part.too_wide == pytest.approx(math.sqrt(len(sizes) / len(inside)))


def test_a_prompt_that_everybody_asks_does_not_decide_the_interval_by_itself():
    score, tokens, prompt = answers_of_one_prompt(200, 4, 5)
    rng = np.random.default_rng(6)
    hi = np.full(1500, prompt.max() + 1)  # of 2,300 rows
    score = np.concatenate((score, np.full(1500, 0.2)))
    tokens = np.concatenate((tokens, 0.5 + 0.1 * rng.normal(size=1500)))
    prompt = np.concatenate((prompt, hi))
    whole = order(score, tokens, clusters=prompt, seed=7)
    for seed in range(4):
        part = order(score, tokens, clusters=prompt, seed=seed, most_rows=1000)
        assert part.low < part.tau < part.high
        assert part.high - part.low == pytest.approx(whole.high - whole.low, rel=0.3)


def test_coverage_counts_and_spreads_what_cannot_be_told():
    quantiles = np.full((4, 1), 10.0)
    shares, told = coverage(quantiles, [5, 15, 20, 2], [False, False, True, False], (0.5,))
    assert shares == pytest.approx([0.5])
    assert told.tolist() == [4]
    shares, told = coverage(quantiles, [5, 15, 4, 2], [False, False, True, False], (0.5,))
    # Kaplan-Meier: 1/4 ended, 1 cut off at 4, then one of the two left ended below 10.
    assert shares == pytest.approx([1 - 3 / 4 * 1 / 2])
    assert told.tolist() == [3]


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        (([1, 2], [1]), {}, "one length"),
        (([1, math.nan], [1, 2]), {}, "finite"),
        (([1, 2], [1, 2]), {"confidence": 1.0}, "confidence"),
        (([1, 2], [1, 2]), {"most_rows": 1}, "most_rows"),
        (([1, 2], [1, 2]), {"clusters": [1]}, "clusters"),
    ],
)
def test_what_makes_no_sense_is_refused(args, options, message):
    with pytest.raises(ValueError, match=message):
        order(*args, **options)
