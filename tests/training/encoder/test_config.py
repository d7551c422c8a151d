"""Settings are refused before minutes are spent on them."""

from __future__ import annotations

import pytest

from training.encoder.config import EncoderConfig, LossWeights
from training.settings import build


def test_a_file_names_all_the_losses_it_wants():
    config = build(EncoderConfig, "encoder", {"losses": {"listmle": 1.0}, "score_head": "linear"})
    assert config.losses.active == {"listmle": 1.0}
    assert config.losses.heads == {"linear"}
    assert config.params()["losses.listmle"] == 1.0


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"epochs": 0}, "encoder.epochs must be at least 1"),
        ({"epoch": 1}, "encoder.epoch is unknown"),
        ({"losses": {"hinge": 1.0}}, "losses.hinge is unknown"),
        ({"losses": {"ranknet": -1.0}}, "losses.ranknet must be at least 0"),
        ({"losses": {}}, "losses: at least one"),
        ({"losses": {"ranknet": 1.0}}, "encoder.score_head 'ordinal' is taught by no loss"),
        ({"score_head": "best"}, "encoder.score_head must be one of"),
        ({"learning_rate": float("nan")}, "encoder.learning_rate must be positive"),
        ({"dropout": 1.0}, "encoder.dropout must lie in"),
        ({"precision": "fp16"}, "encoder.precision must be one of"),
        ({"train_words": 1}, "encoder.train_words must be true or false"),
        ({"auxiliary_weight": 2.0}, "encoder.auxiliary_weight must lie between"),
    ],
)
def test_what_is_wrong_is_named(values, says):
    with pytest.raises(ValueError, match=says):
        build(EncoderConfig, "encoder", values)


def test_defaults_teach_every_head_that_is_used():
    assert EncoderConfig().losses == LossWeights(ranknet=1.0, ordinal=1.0, quantile=0.3)
