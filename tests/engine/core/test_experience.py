import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from engine.core.policies.experience import Experience, log_mean_exp, threshold


def test_bins_hold_the_mean_of_exp_gamma_work():
    rng = np.random.default_rng(3)
    labels = rng.uniform(0, 10, 400)
    works = labels * rng.lognormal(0.0, 0.3, 400)
    known = Experience(memory=400, bins=4, least=25)
    for pair in zip(labels, works, strict=True):
        known.add(*map(float, pair))
    order = np.argsort(labels)
    for part in np.array_split(order, 4):
        found = known.bin_of(float(np.median(labels[part])), 0.2)
        assert found.count == 100
        assert math.exp(found.log_m) == pytest.approx(np.exp(0.2 * works[part]).mean())
    assert known.bin_of(99.0, 0.2).highest_label == pytest.approx(labels.max())


def test_bins_are_the_isotonic_regression_of_m():
    rng = np.random.default_rng(4)
    labels = np.arange(200.0)
    works = rng.uniform(0, 3, 200)
    known = Experience(memory=200, bins=20, least=10)
    for pair in zip(labels, works, strict=True):
        known.add(*map(float, pair))
    means = np.exp(works).reshape(20, 10).mean(axis=1)
    expected = IsotonicRegression().fit_transform(np.arange(20), means)
    found = [math.exp(known.bin_of(10.0 * i, 1.0).log_m) for i in range(20)]
    assert found == pytest.approx(list(expected))


def test_says_nothing_below_the_least():
    known = Experience(memory=100, bins=4, least=25)
    for i in range(24):
        known.add(float(i), 1.0)
    assert known.bin_of(1.0, 1.0) is None
    known.add(1.0, 1.0)
    assert known.bin_of(1.0, 1.0).count == 25
    known.clear()
    assert known.bin_of(1.0, 1.0) is None
    assert known.threshold(0.5) == -math.inf


def test_does_not_overflow():
    assert log_mean_exp([1e5, 1e5]) == pytest.approx(1e5)
    assert log_mean_exp([0.0, 1.0], [0.25, 0.75]) == pytest.approx(math.log(0.25 + 0.75 * math.e))


pairs = st.lists(st.tuples(st.integers(0, 9), st.floats(0.01, 9.0)), min_size=1, max_size=60)


@given(pairs, st.floats(0.0, 1.0))
def test_threshold_holds_at_most_its_share_and_is_the_highest_such(found, share):
    ordered = sorted((float(label), work) for label, work in found)
    cut = threshold(ordered, share)
    total = sum(work for _, work in ordered)

    def held(label):
        return sum(work for other, work in ordered if other <= label)

    assert held(cut) <= share * total * (1 + 1e-9)
    higher = [label for label, _ in ordered if label > cut]
    assert not higher or held(higher[0]) > share * total * (1 - 1e-9)
