"""Settings of a file: what is wrong is named before anything runs."""

from __future__ import annotations

import pytest

from training.config import TrainConfig
from training.lexical_config import TreeConfig


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
def test_lexical_settings_name_what_is_wrong(values, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig.from_dict({"lexical": values})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"calibration": {"bandwidths": []}}, "calibration.bandwidths"),
        ({"calibration": {"bandwidths": 0.5}}, "calibration.bandwidths must be a list of numbers"),
        ({"calibration": {"levels": ["half"]}}, "calibration.levels must be a list of numbers"),
        ({"calibration": {"levels": [0.9, 0.5]}}, "calibration.levels must ascend"),
        ({"tier": "best"}, "train.tier must be one of lexical, encoder, blend"),
        ({"lexical": 3}, "train.lexical must be a table"),
    ],
)
def test_settings_name_what_is_wrong(values, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig.from_dict(values)


def test_settings_from_nested_tables():
    config = TrainConfig.from_dict(
        {
            "lexical": {"seed": 4, "trees": {"rounds": 9}},
            "calibration": {"bandwidths": [0.5, float("inf")]},
        }
    )
    assert config.lexical.trees == TreeConfig(rounds=9)
    assert config.calibration.bandwidths == (0.5, float("inf"))
    told = config.params()
    assert (told["lexical.trees.rounds"], told["lexical.seed"]) == (9, 4)
    assert not any(name.startswith("encoder") for name in told)
