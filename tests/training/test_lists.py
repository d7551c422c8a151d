from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from training.lists import ListConfig, make_lists, rank_shares


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_without_censoring_shares_are_mid_ranks(tokens):
    found = rank_shares(np.array(tokens, float), np.zeros(len(tokens), bool))
    assert found == pytest.approx((rankdata(tokens) - 0.5) / len(tokens))


def test_a_bound_stands_half_way_between_itself_and_the_longest():
    y = np.array([10.0, 20.0, 30.0, 30.0, 30.0])
    c = np.array([False, False, False, True, True])
    # 3/5 ended by 30; the two others lie somewhere above: at 1 - (2/5)/2 in expectation.
    assert rank_shares(y, c) == pytest.approx([0.1, 0.3, 0.5, 0.8, 0.8])


def test_a_bound_is_never_ranked_below_an_answer_that_ended_before_it():
    rng = np.random.default_rng(0)
    y, c = rng.integers(1, 50, 300).astype(float), rng.random(300) < 0.4
    shares = rank_shares(y, c)
    assert np.all((shares > 0) & (shares < 1))
    for i in np.flatnonzero(c):
        assert np.all(shares[i] >= shares[~c & (y <= y[i])])


def test_lists_hold_every_row_once_and_fit_lightgbm():
    shares = rank_shares(np.arange(1000.0), np.zeros(1000, bool))
    lists = make_lists(shares, ListConfig(size=64, grades=31), np.random.default_rng(0))
    assert sorted(lists.order) == list(range(1000))
    assert lists.sizes.sum() == 1000
    assert lists.sizes.max() <= 64
    assert (lists.grades.min(), lists.grades.max()) == (0, 30)
    sizes = np.bincount(lists.grades)
    assert sizes.max() - sizes.min() <= 1
    assert np.all(np.diff(lists.grades[np.argsort(shares[lists.order])]) >= 0)
