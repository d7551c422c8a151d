"""Pairs that are counted without a look at each, against a look at each."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from ranker.metrics import Partners, decided, order

ROWS = st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 6), st.booleans()), max_size=40)
KINDS = ("concordant", "discordant", "tied", "equal", "parted")


def kind_of(row, other) -> tuple[str, ...]:
    """The definition, of one pair."""
    (s, y, cut), (t, z, cut_other) = row, other
    if not cut and not cut_other and y == z:
        return ("equal", "parted") if s != t else ("equal",)
    if not cut_other and (y > z or (cut and y == z)):
        longer = 1
    elif not cut and (z > y or (cut_other and y == z)):
        longer = -1
    else:
        return ()
    agreement = longer * ((s > t) - (s < t))
    return ("tied",) if not agreement else ("concordant",) if agreement > 0 else ("discordant",)


def columns(rows):
    scores, tokens, censored = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(scores, float), np.array(tokens, float), np.array(censored, bool)


@settings(max_examples=300, deadline=None)
@given(ROWS)
def test_each_rows_pairs_are_those_of_the_definition(rows):
    found = Partners.of(*columns(rows))
    expected = {kind: [0] * len(rows) for kind in KINDS}
    for i, row in enumerate(rows):
        for j, other in enumerate(rows):
            for kind in kind_of(row, other) if i != j else ():
                expected[kind][i] += 1
    for kind in KINDS:
        assert getattr(found, kind).tolist() == expected[kind]
        assert getattr(found, kind).dtype == np.int64


def by_matrix(scores, tokens, censored):
    """tau-b, accuracy and known pairs of matrices of all pairs."""
    longer, known = decided(tokens, censored)
    higher = np.sign(scores[:, None] - scores[None, :])
    agreement, every = float((higher * longer).sum()), float(np.abs(longer).sum())
    scale = math.sqrt(float((np.abs(higher) * known).sum()) * every)
    pairs = int(np.triu(known, 1).sum())
    tau = agreement / scale if scale else math.nan
    return tau, 0.5 * (1.0 + agreement / every) if every else math.nan, pairs


@settings(max_examples=300, deadline=None)
@given(ROWS)
def test_an_order_is_that_of_the_matrix_of_all_pairs(rows):
    found = order(*columns(rows), resamples=0)
    expected = by_matrix(*columns(rows))
    numbers = (found.tau, found.accuracy, found.pairs)
    assert numbers == pytest.approx(expected, abs=1e-9, nan_ok=True)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 400), st.integers(1, 500), st.floats(0, 1))
def test_more_rows_with_real_numbers_do_not_change_that(seed, rows, values, share):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, values, rows) / 7.0
    scores = np.round(tokens + rng.normal(scale=values / 4.0, size=rows), 1)
    censored = rng.random(rows) < share
    found = order(scores, tokens, censored, resamples=0)
    expected = by_matrix(scores, tokens, censored)
    assert (found.tau, found.accuracy, found.pairs) == pytest.approx(expected, nan_ok=True)


@settings(max_examples=100, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(rows, random):
    shuffled = random.sample(rows, len(rows))
    found, again = (order(*columns(each), resamples=0) for each in (rows, shuffled))
    assert (again.tau, again.pairs) == pytest.approx((found.tau, found.pairs), nan_ok=True)


@pytest.mark.parametrize(
    ("rows", "pairs"),
    [
        ([], 0),
        ([(1, 5, False)], 0),
        ([(1, 5, True)], 0),
        ([(1, 5, True), (2, 9, True), (0, 5, True)], 0),
        ([(1, 5, False), (1, 5, False)], 1),
    ],
)
def test_rows_without_an_order_have_no_tau(rows, pairs):
    found = order(*columns(rows))
    assert math.isnan(found.tau)
    assert math.isnan(found.accuracy)
    assert found.pairs == pairs


def test_many_rows_agree_with_scipy():
    rng = np.random.default_rng(0)
    rows = 200_000
    scores = rng.normal(size=rows).round(4)
    tokens = np.ceil(np.exp(5.0 + 0.6 * scores + rng.normal(size=rows)))
    found = order(scores, tokens, resamples=0)
    assert found.tau == pytest.approx(kendalltau(scores, tokens).statistic, abs=1e-9)
    assert found.pairs == rows * (rows - 1) // 2  # beyond what 32 bits hold
    scattered = order(scores, rng.permutation(tokens), resamples=0)
    assert abs(scattered.tau) < 5 * 2 / 3 / math.sqrt(rows)  # five standard errors around no order
