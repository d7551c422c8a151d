from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import configs
from training.expect import Bound, bounds, missed


def test_what_is_missed_and_by_how_much():
    expected = bounds(
        {"tau": {"at_least": 0.4}, "p90": {"at_least": 0.8, "at_most": 1}, "loss": {"at_most": 2}}
    )
    assert missed(expected, {"tau": 0.4, "p90": 1.0, "loss": 2.0}) == ()
    low, high, absent = missed(expected, {"tau": 0.3, "p90": 1.25})
    assert (low.metric, low.value) == ("tau", 0.3)
    assert low.by == pytest.approx(0.1)
    assert high.by == pytest.approx(0.25)
    assert (absent.metric, math.isnan(absent.value)) == ("loss", True)


def test_a_metric_that_is_not_a_number_is_missed():
    assert len(missed({"tau": Bound(at_least=0.0)}, {"tau": math.nan})) == 1


@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(0, 5))
def test_a_metric_is_missed_exactly_outside_its_bound(value, low, width):
    found = missed({"m": Bound(low, low + width)}, {"m": value})
    assert bool(found) == (value < low or value > low + width)
    assert all(miss.by > 0.0 for miss in found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0.4, "must be a table"),
        ({}, "at_least, at_most or both"),
        ({"above": 1.0}, "at_least, at_most or both"),
        ({"at_least": "high"}, "at_least must be a number"),
        ({"at_least": True}, "at_least must be a number"),
        ({"at_most": math.nan}, "at_most must be a number"),
        ({"at_least": 2, "at_most": 1}, "above at_most"),
    ],
)
def test_bounds_that_make_no_sense_name_the_metric(given, message):
    with pytest.raises(ValueError, match=rf"test\.tau.*{message}"):
        bounds({"test.tau": given})


@pytest.mark.parametrize("name", configs.shipped())
def test_every_shipped_configuration_is_a_regression_test(name):
    found = configs.read(name)
    assert found.name == name
    assert found.expected


def test_a_file_of_ones_own(tmp_path):
    file = tmp_path / "mine é.toml"
    file.write_text(
        'served_model = "m"\ndata = "log.jsonl"\n[lexical]\nseed = 3\n[lexical.trees]\nrounds = 7\n'
        '[expected_metrics]\n"test.tau" = { at_least = 0.1 }\n'
    )
    found = configs.read(str(file))
    assert (found.name, found.served_model, found.data) == ("mine é", "m", "log.jsonl")
    assert (found.train.seed, found.train.lexical.trees.rounds) == (3, 7)
    assert found.expected == {"test.tau": Bound(at_least=0.1)}
    assert configs.read("").expected == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = ", "not TOML"),
        ("[lexical.trees]\nround = 3", "trees.round is unknown"),
        ("expected_metrics = 3", "expected_metrics must be a table"),
        ("served_model = 3", "served_model must be text"),
    ],
)
def test_a_wrong_file_names_itself_and_the_setting(tmp_path, text, message):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=rf"mine\.toml: {message}"):
        configs.read(str(file))


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(ValueError, match="lexical"):
        configs.read("nosuch")
