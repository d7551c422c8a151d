"""What is done about drift can be switched, and mistakes are named."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from drift.acting.config import ActConfig, RecalibrateConfig


def test_a_table_sets_each_action_and_leaves_the_rest() -> None:
    text = """
    [act]
    recalibrate = false
    warn = 1
    [act.recalibration]
    window = 300
    """
    config = ActConfig.from_mapping(tomllib.loads(text)["act"])
    assert config == ActConfig(
        recalibrate=False, warn=1.0, recalibration=RecalibrateConfig(window=300)
    )
    assert ActConfig.from_mapping({}) == ActConfig()
    assert ActConfig().any
    assert not ActConfig(shrink=False, fallback=False, recalibrate=False).any


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"shrnk": True}, "act.shrnk is not a setting; known are shrink, fallback"),
        ({"shrink": "yes"}, "act.shrink must be true or false"),
        ({"warn": True}, "act.warn must be a number"),
        ({"vouch": 1.5}, "act.vouch must be a whole number"),
        ({"vouch": 0}, "act.vouch"),
        ({"caution": 1.5}, "act.caution must lie inside"),
        ({"early": 1}, "act.early must be true or false"),
        ({"warn": 0.1, "degraded": 0.5}, "act.degraded and act.warn"),
        ({"recalibration": True}, "act.recalibration must be a table"),
        ({"recalibration": {"leest": 3}}, "act.recalibration.leest"),
        ({"recalibration": {"least": 5}}, "act.recalibration.least"),
        ({"recalibration": {"window": 30}}, "act.recalibration.window"),
        ({"recalibration": {"off": 0.0}}, "act.recalibration"),
        ({"recalibration": {"every": 0}}, "act.recalibration.every"),
    ],
)
def test_a_mistake_names_the_setting(table: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named.replace(".", r"\.")):
        ActConfig.from_mapping(table)
