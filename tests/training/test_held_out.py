"""Rows that a ranker was trained on do not judge it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranker.types import FinishReason
from training.evaluate import LEAST_ROWS
from training.gate import seen
from training.held_out import HeldOut, footnote
from training.sources import Example


def row(number: int, split: str = "test", conversation: str = "") -> Example:
    return Example(
        f"Question {number}", number, FinishReason.STOP, "m", f"id{number}", split,
        conversation=conversation,
    )  # fmt: skip


def held(examples, trained_on) -> HeldOut:
    return HeldOut.of(examples, trained_on, source="log", ranker="r/1")


@given(st.sets(st.integers(0, 99)))
def test_what_is_left_is_what_was_not_trained_on_in_order(trained):
    examples = [row(i) for i in range(100, 100 + LEAST_ROWS)] + [row(i) for i in range(100)]
    found = held(examples, seen(row(i, "train") for i in trained))
    assert found.rows == [e for e in examples if e.output_tokens not in trained]
    assert found.left_out == len(trained)


def test_a_prompt_in_other_letters_and_another_turn_of_a_conversation_are_known():
    trained = seen([row(1, "train"), row(2, "train", "talk")])
    fresh = [row(i) for i in range(10, 10 + LEAST_ROWS)]
    known = [replace(row(1), prompt="question  1 "), row(3, conversation="talk")]
    assert held([*known, *fresh], trained) == HeldOut(fresh, 2)


def test_rows_that_were_held_out_in_training_are_not_left_out():
    examples = [row(i) for i in range(20)]
    others = [replace(e, split=("validation", "test")[i % 2]) for i, e in enumerate(examples)]
    assert held(examples, seen(others)) == HeldOut(examples, 0)


def test_what_does_not_say_what_it_was_trained_on_leaves_all_rows():
    examples = [row(i) for i in range(20)]
    assert held(examples, None) == HeldOut(examples, None)


def test_too_few_others_are_an_error_that_names_the_fix():
    examples = [row(i) for i in range(30)]
    trained = seen(row(i, "train") for i in range(30 - LEAST_ROWS + 1))
    said = r"^log: r/1 was trained on .* 21 of 30 rows, and 9 others are too few .* at least 10 .*"
    with pytest.raises(ValueError, match=said + ": give rows that .*column split"):
        held(examples, trained)


def test_the_footnote_says_how_many_of_which_or_that_it_is_not_known():
    some, none = HeldOut([row(1)] * 3, 1000), HeldOut([row(1)] * 5, 0)
    assert footnote({"code": some, "test": none}, "r/1") == (
        "Left out, because r/1 was trained on them: 1,000 of 1,003 code rows."
    )
    assert footnote({"test": none}, "r/1") == ""
    assert "not known" in footnote({"test": HeldOut([row(1)])}, "some/folder")
