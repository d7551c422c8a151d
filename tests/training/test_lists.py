from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from training.lexical_config import LexicalConfig, TreeConfig
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


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lists": {"grades": 32}}, "lists.grades"),
        ({"lists": {"size": 10_001}}, "lists.size"),
        ({"trees": {"objective": "magic"}}, "trees.objective"),
        ({"trees": {"label": "words"}}, "trees.label must be one of share, log_tokens"),
        ({"trees": {"alpha": 1}}, "trees.alpha"),
        ({"trees": {"most_rows": 5}}, "trees.most_rows must be at least 100"),
        ({"relevance": -1}, "lexical.relevance"),
        ({"trees": {"rounds": 0}}, "trees.rounds"),
        ({"trees": {"learning_rate": 0}}, "trees.learning_rate"),
        ({"trees": {"depth": 3}}, "trees.depth is unknown"),
        ({"ridges": 1}, "lexical.ridges is unknown"),
        ({"ridge": 0}, "lexical.ridge"),
        ({"folds": 1}, "lexical.folds"),
        ({"trees": 3}, "lexical.trees must be a table"),
        ({"auxiliary_weight": 2}, "lexical.auxiliary_weight"),
        ({"calibration": {"bandwidths": []}}, "calibration.bandwidths"),
        ({"calibration": {"bandwidths": 0.5}}, "calibration.bandwidths must be a list of numbers"),
        ({"calibration": {"levels": ["half"]}}, "calibration.levels must be a list of numbers"),
        ({"calibration": {"levels": [0.9, 0.5]}}, "calibration.levels must ascend"),
        ({"trees": {"rounds": "many"}}, "trees.rounds must be a whole number, got 'many'"),
        ({"trees": {"rounds": 2.5}}, "trees.rounds must be a whole number"),
        ({"trees": {"rounds": True}}, "trees.rounds must be a whole number"),
        ({"trees": {"objective": 1}}, "trees.objective must be text"),
        ({"trees": {"l2": float("nan")}}, "trees.l2"),
        ({"window": {"head": []}}, "window.head must be a whole number"),
        ({"ridge": "a"}, "lexical.ridge must be a number"),
        ({"seed": None}, "lexical.seed must be a whole number"),
    ],
)
def test_settings_name_what_is_wrong(values, message):
    with pytest.raises(ValueError, match=message):
        LexicalConfig.from_dict(values)


def test_settings_from_nested_tables():
    config = LexicalConfig.from_dict(
        {"seed": 4, "trees": {"rounds": 9}, "calibration": {"bandwidths": [0.5, float("inf")]}}
    )
    assert config.trees == TreeConfig(rounds=9)
    assert config.calibration.bandwidths == (0.5, float("inf"))
    assert config.params()["trees.rounds"] == 9
