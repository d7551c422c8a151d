from __future__ import annotations

import pytest

from ranker.types import FinishReason
from training.sharegpt import ShareGpt, Turn
from training.traffic import DEFAULT, SLICES, shifted


def turn(name, depth, split, prompt="hello there", tokens=100):
    return Turn(name, 0, depth, split, prompt, 2, tokens)


TALK = ShareGpt(
    first=(
        turn("a", 0, "train"),
        turn("b", 0, "test", tokens=10),
        turn("c", 0, "validation", "def f():\n  return {}"),
        turn("d", 0, "test", "¿qué tal está usted?"),
    ),
    later=(
        turn("e", 2, "test"),
        turn("f", 44, "validation", "x" * 150),
        turn("g", 50, "test", "y" * 1200),
    ),
    source="made up",
)


def names(slice_name, **options):
    return [e.id.split("/")[0] for e in shifted(TALK, slice_name, **options)]


def test_slices_take_what_they_say_and_never_what_was_trained_on():
    assert names("first-turns") == ["b", "c", "d"]
    assert names("later-turns") == ["e", "f", "g"]
    assert names("deep-turns") == names("deep-long") == ["f", "g"]
    assert names("long-prompts") == ["g"]
    assert names("code") == ["c"]
    assert names("not-english") == ["d"]
    assert all("a" not in names(name) for name in SLICES)
    assert DEFAULT in SLICES


def test_one_split_alone():
    assert names("deep-long", splits=["test"]) == ["g"]


def test_a_limit_cuts_and_censors():
    cut = {
        e.id.split("/")[0]: (e.output_tokens, e.finish_reason) for e in shifted(TALK, "limit-64")
    }
    assert cut["b"] == (10, FinishReason.STOP)
    assert cut["c"] == (64, FinishReason.LENGTH)


def test_what_is_refused():
    with pytest.raises(ValueError, match="no slice 'x'"):
        shifted(TALK, "x")
    for splits in (["train"], []):
        with pytest.raises(ValueError, match="splits"):
            shifted(TALK, splits=splits)
