"""Harrell's C and accuracy by band, derived again pair by pair."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift.bands import by_band
from drift.harrell import harrell_c
from drift.pairs import Pairs
from drift.tau import kendall_tau

ROWS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 12), st.booleans()), min_size=2, max_size=40
)


def _decided(rows):
    """(longer, shorter) of each pair of different length whose order is known."""
    for a, b in combinations(rows, 2):
        for longer, shorter in ((a, b), (b, a)):
            beyond = longer[1] > shorter[1] or (longer[1] == shorter[1] and longer[2])
            if beyond and not shorter[2]:
                yield longer, shorter


def _right(longer, shorter):
    return (longer[0] > shorter[0]) + 0.5 * (longer[0] == shorter[0])


def _arrays(rows):
    s, y, c = zip(*rows, strict=True)
    return np.array(s, dtype=float), np.array(y), np.array(c)


@given(ROWS)
@settings(max_examples=200, deadline=None)
def test_c_is_the_share_of_decided_pairs_in_order(rows):
    expected = [_right(*pair) for pair in _decided(rows)]
    found = harrell_c(Pairs.of(*_arrays(rows)))
    if not expected:
        assert math.isnan(found.value)
        return
    assert found.value == pytest.approx(np.mean(expected), abs=1e-12)
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0


@given(ROWS)
@settings(max_examples=100, deadline=None)
def test_bands_share_the_pairs_out_by_the_longer_one(rows):
    edges = (0, 3, 8)
    found = by_band(*_arrays(rows), edges)
    pairs = list(_decided(rows))
    assert sum(b.pairs for b in found) == len(pairs)
    assert sum(b.outcomes for b in found) == len(rows)
    for band in found:
        own = [
            _right(longer, shorter)
            for longer, shorter in pairs
            if band.low <= longer[1] < (band.high or math.inf)
        ]
        assert band.pairs == len(own)
        if own:
            assert band.accuracy == pytest.approx(np.mean(own), abs=1e-12)


def test_the_interval_covers_as_often_as_it_says(stream):
    truth = 0.5 + 0.36 / 2  # without ties C is half of one plus tau
    hits = 0
    for seed in range(200):
        rows = stream(150, 0.36, 1000 + seed)
        s = np.array([o.forecast.score for o in rows])
        y = np.array([o.output_tokens for o in rows])
        found = harrell_c(Pairs.of(s, y))
        hits += found.low <= truth <= found.high
    assert 0.90 <= hits / 200 <= 0.99


def test_c_and_tau_agree_without_ties():
    rng = np.random.default_rng(4)
    s, y = rng.normal(size=300), rng.permutation(300)
    pairs = Pairs.of(s, y)
    assert harrell_c(pairs).value == pytest.approx((1.0 + kendall_tau(s, y).value) / 2.0)
