from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranker.scale import Scale, fit

FINITE = st.floats(-1e6, 1e6)


def test_it_is_the_line_through_log_tokens():
    rng = np.random.default_rng(0)
    score = rng.normal(size=2000)
    tokens = np.expm1(3.0 + 0.7 * score + 0.5 * rng.normal(size=2000))
    found = fit(score, tokens, np.zeros(2000, bool))
    slope, offset = np.polyfit(score, np.log1p(tokens), 1)
    assert (found.offset, found.slope) == pytest.approx((offset, slope), abs=0.05)


def test_bounds_are_not_taken_for_lengths():
    rng = np.random.default_rng(1)
    score = rng.normal(size=4000)
    tokens = np.exp(5 + score + 0.5 * rng.normal(size=4000))
    limit = 400.0
    cut = tokens > limit
    honest = fit(score, np.minimum(tokens, limit), cut)
    naive = fit(score, np.minimum(tokens, limit), np.zeros(4000, bool))
    assert 0.1 < cut.mean() < 0.3
    assert abs(honest.slope - 1) < 0.15
    assert naive.slope < honest.slope


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(FINITE, st.integers(0, 9999), st.booleans()), min_size=1, max_size=60),
    st.lists(FINITE, min_size=2, max_size=9),
)
def test_the_order_within_a_model_is_unchanged(rows, scores):
    found = fit(*zip(*rows, strict=True))
    assert found.slope > 0
    ordered = found(np.sort(scores))
    assert np.all(np.isfinite(ordered))
    assert np.all(np.diff(ordered) >= 0)


def test_a_score_that_orders_nothing_keeps_to_the_middle():
    rng = np.random.default_rng(2)
    score = rng.normal(size=3000)
    found = fit(score, np.exp(4 + rng.normal(size=3000)), np.zeros(3000, bool))
    assert np.ptp(found(np.array([-2.0, 2.0]))) < 0.4
    backwards = fit(-score, np.exp(4 + score), np.zeros(3000, bool))
    assert 0 < np.ptp(backwards(np.array([-2.0, 2.0]))) < 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Scale(math.nan), "scale.offset"),
        (lambda: Scale(0.0, 0.0), "scale.slope"),
        (lambda: Scale(0.0, math.inf), "scale.slope"),
        (lambda: fit([1.0], [1.0, 2.0], [False]), "one length"),
        (lambda: fit([], [], []), "one length"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
