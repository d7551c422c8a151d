from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from ranker.metrics import short_long, thirds

WHOLE = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), min_size=3, max_size=60)


@settings(max_examples=60, deadline=None)
@given(WHOLE)
def test_it_is_scipys_area_under_the_curve_between_thirds(rows):
    scores, tokens = (np.array(part, float) for part in zip(*rows, strict=True))
    part = thirds(tokens, np.zeros(len(rows), bool))
    short, long = scores[part < 0], scores[part > 0]
    found = short_long(scores, tokens)
    if len(short) and len(long):
        expected = mannwhitneyu(long, short).statistic / (len(short) * len(long))
        assert found == pytest.approx(expected)
        assert tokens[part < 0].max() < tokens[part > 0].min()
    else:
        assert math.isnan(found)


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(30)))
def test_lengths_that_differ_make_thirds_of_a_third(order):
    part = thirds(np.array(order, float), np.zeros(30, bool))
    assert [np.count_nonzero(part == p) for p in (-1, 0, 1)] == [10, 10, 10]


def test_a_bound_belongs_to_the_longest_once_it_has_come_so_far():
    tokens = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9.0])
    bound = np.zeros(9, bool)
    bound[8] = True
    assert thirds(tokens, bound).tolist() == [-1, -1, -1, 0, 0, 0, 1, 1, 1]
    bound[1] = True  # cut off early: nobody knows
    assert thirds(tokens, bound)[1] == 0


def test_a_limit_that_cuts_more_than_a_third_makes_that_the_longest():
    tokens = np.array([10, 20, 30, 40, 50, 64, 64, 64, 64, 64.0])
    part = thirds(tokens, tokens == 64)
    assert (
        part.tolist() == [-1] * 3 + [0] * 2 + [1] * 5 or part.tolist() == [-1] * 4 + [0] + [1] * 5
    )


def test_one_length_has_no_thirds():
    assert math.isnan(short_long([1, 2, 3], [5, 5, 5]))
    assert math.isnan(short_long([], []))


def test_equal_scores_count_as_half():
    assert short_long([0, 0, 0], [1, 2, 3]) == 0.5
