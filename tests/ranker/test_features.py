from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranker.features import FEATURES, extract
from ranker.window import Window

WINDOW = Window()


def feature(prompt: str, name: str) -> float:
    return float(extract([prompt], WINDOW)[0, FEATURES.index(name)])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=300), max_size=5))
def test_features_are_finite_and_a_row_does_not_depend_on_its_neighbours(prompts):
    table = extract(prompts, WINDOW)
    assert table.shape == (len(prompts), len(FEATURES))
    assert np.all(np.isfinite(table))
    for row, prompt in zip(table, prompts, strict=True):
        assert np.array_equal(row, extract([prompt], WINDOW)[0])


def test_only_the_ends_of_a_long_prompt_are_read():
    window = Window(head=20, tail=10)
    a = "write an essay about" + "x" * 500 + " in french"
    b = "write an essay about" + "y" * 500 + " in french"
    assert np.array_equal(extract([a], window), extract([b], window))
    assert window.cut("short") == "short"
    with pytest.raises(ValueError, match=r"window\.head"):
        Window(head=0)


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [
        ("Describe it in 50 words.", 50 * 1.35),
        ("write a 2,000 word essay on bees", 2000 * 1.35),
        ("Three short paragraphs, please", 3 * 110),
        ("20 blog post ideas", 20 * 40),
        ("the top 10 movies", 10 * 40),
        ("Answer in one sentence", 25),
        ("I have 3 cats and a dog", 0),
        ("words about 12", 0),
        ("99999999999999 pages", 20_000),
        ("", 0),
    ],
)
def test_a_requested_length_is_number_times_unit(prompt, tokens):
    assert feature(prompt, "log_requested_tokens") == pytest.approx(math.log1p(tokens), rel=1e-4)


def test_an_upper_bound_is_told_from_a_wish():
    assert feature("in less than 100 words", "requests_at_most") == 1
    assert feature("in 100 words", "requests_at_most") == 0


def test_words_are_counted_by_what_they_ask_for():
    assert feature("Translate this into Spanish", "words_translate") == 2
    assert feature("translated", "words_translate") == 0
    assert feature("Summarize the text above", "words_earlier") == 1
    assert feature("please", "first_kind") >= 0
    assert feature("zzz", "first_kind") == -1


@pytest.mark.parametrize(
    ("prompt", "name", "share"),
    [
        ("Привет", "share_cyrillic", 1.0),
        ("مرحبا", "share_semitic", 1.0),
        ("東京", "share_east_asian", 1.0),
        ("안녕", "share_hangul", 1.0),
        ("नमस्ते", "share_indic", 1.0),
        ("🦆🦆", "share_emoji", 1.0),
        ("hello", "share_cyrillic", 0.0),
        ("der die das", "share_german", 1.0),
        ("the words of this", "share_english", 0.75),
    ],
)
def test_scripts_and_languages_are_shares(prompt, name, share):
    assert feature(prompt, name) == pytest.approx(share)


def test_names_are_distinct():
    assert len(set(FEATURES)) == len(FEATURES)
