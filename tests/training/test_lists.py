from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from training.lists import ListConfig, lengths_at, make_lists, rank_shares


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


cut_lengths = st.lists(
    st.tuples(st.integers(0, 40), st.booleans(), st.sampled_from([0.125, 0.5, 1.0])),
    min_size=1,
    max_size=60,
).filter(lambda rows: not all(cut for _, cut, _ in rows))


@given(cut_lengths)
def test_at_its_share_an_answer_that_ended_has_its_own_length_and_a_bound_a_longer_one(rows):
    y, c, w = (np.array(column) for column in zip(*rows, strict=True))
    y = y.astype(float)
    found = lengths_at(rank_shares(y, c, w), y, c, w)
    assert found[~c].tolist() == y[~c].tolist()
    assert np.all(found[c] >= y[c])


@given(cut_lengths)
def test_a_higher_share_is_never_a_shorter_length(rows):
    y, c, _ = (np.array(column) for column in zip(*rows, strict=True))
    shares = np.linspace(0.01, 0.99, 30)
    found = lengths_at(shares, y.astype(float), c)
    assert np.all(np.diff(found) >= 0.0)
    assert lengths_at(shares[::-1], y.astype(float), c).tolist() == found[::-1].tolist()


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
