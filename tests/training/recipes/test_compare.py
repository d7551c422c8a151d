from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from ranker.metrics import order
from training.recipes.compare import Sample, standings
from training.sources import Lengths


def sample(tokens, censored=None, groups=None, prompts=None, centre="mean") -> Sample:
    n = len(tokens)
    cut = np.zeros(n, np.bool_) if censored is None else np.asarray(censored)
    return Sample(
        Lengths(np.asarray(tokens, dtype=np.float64), cut),
        np.arange(n) if prompts is None else np.asarray(prompts),
        (np.arange(n),) if groups is None else tuple(map(np.asarray, groups)),
        centre,
    )


def test_tau_is_scipys_and_differences_are_paired() -> None:
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 60, 200).astype(float)
    good = tokens + rng.normal(0, 20, 200)
    twin = good + rng.normal(0, 10, 200)
    noise = rng.normal(0, 1, 200)
    found = standings(
        sample(tokens), {"good": good, "twin": twin, "noise": noise}, ["twin", "noise"]
    )
    for name, scores in (("good", good), ("twin", twin), ("noise", noise)):
        assert found[name].tau == pytest.approx(kendalltau(scores, tokens).statistic, abs=1e-6)
        assert found[name].low < found[name].tau < found[name].high
    assert found["good"].gain == pytest.approx(found["good"].tau - found["twin"].tau)
    assert found["twin"].gain == pytest.approx(found["twin"].tau - found["noise"].tau)
    # Both see the same draws, so their difference is known better than either.
    assert found["good"].half < (found["good"].high - found["good"].low) / 2


def test_rows_of_different_groups_are_never_compared() -> None:
    tokens = [1, 2, 3, 10, 20, 30]
    scores = np.array([4.0, 5.0, 6.0, 1.0, 3.0, 2.0])
    split = sample(tokens, groups=[[0, 1, 2], [3, 4, 5]])
    assert standings(split, {"x": scores}, ["x"])["x"].tau == pytest.approx((1 + 1 / 3) / 2)
    middle = sample(tokens * 2, groups=[[0, 1, 2], [3, 4, 5], [9, 10, 11]], centre="median")
    assert standings(middle, {"x": np.tile(scores, 2)}, ["x"])["x"].tau == pytest.approx(1 / 3)


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 4)), min_size=2, max_size=30
    )
)
def test_bounds_decide_pairs_as_the_metric_of_the_ranker_says(rows) -> None:
    tokens, cut, scores = (np.array(column) for column in zip(*rows, strict=True))
    expected = order(scores, tokens, cut, resamples=0)
    found = standings(sample(tokens, cut), {"x": scores.astype(float)}, [], resamples=1)["x"]
    assert found.tau == pytest.approx(expected.tau, abs=1e-6, nan_ok=True)
    assert found.accuracy == pytest.approx(expected.accuracy, abs=1e-6, nan_ok=True)


def test_answers_to_one_prompt_are_drawn_together() -> None:
    rng = np.random.default_rng(1)
    tokens = np.repeat(rng.integers(1, 500, 40), 5).astype(float)
    scores = tokens + np.repeat(rng.normal(0, 200, 40), 5)
    rows = standings(sample(tokens), {"x": scores}, [])["x"]
    prompts = standings(sample(tokens, prompts=np.repeat(np.arange(40), 5)), {"x": scores}, [])["x"]
    assert prompts.tau == pytest.approx(rows.tau)
    assert prompts.high - prompts.low > 1.5 * (rows.high - rows.low)


def test_a_constant_order_has_no_tau_and_half_the_pairs() -> None:
    found = standings(sample([1, 2, 3]), {"x": np.zeros(3)}, [])["x"]
    assert math.isnan(found.tau)
    assert found.accuracy == 0.5


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="scores of x"):
        standings(sample([1, 2]), {"x": np.zeros(3)}, [])
    with pytest.raises(ValueError, match="two rows"):
        sample([1, 2], groups=[[0]])
    with pytest.raises(ValueError, match="centre"):
        sample([1, 2], centre="mode")
