from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from ranker.types import LEVELS, FinishReason, Forecast
from training.draws import MOST_DRAWS, Draws, prompt_numbers
from training.slices import by_answer, by_novelty, by_slice, has_code, not_english, slices
from training.sources import Example


def example(prompt: str = "x", tokens: int = 10, reason: str = "stop", model: str = "m") -> Example:
    return Example(prompt, tokens, FinishReason(reason), model, "id", "test")


@pytest.mark.parametrize(
    ("prompt", "code", "foreign"),
    [
        ("Write a poem about rivers.", False, False),
        ("def f(x):\n    return x", True, False),
        ("why does this fail?\n```\nint i = 0;\n```", True, False),
        ("SELECT name FROM t", True, False),
        ("Напиши стихотворение о реке", False, True),
        ("写一首关于河流的诗", False, True),
        ("a naïve question about one café in a long English sentence, and no more", False, False),
        ("", False, False),
        ("x" * 5000 + "```", False, False),  # beyond what is looked at
    ],
)
def test_code_and_language_of_a_prompt(prompt: str, code: bool, foreign: bool):
    assert has_code(prompt) is code
    assert not_english(prompt) is foreign


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=1200), min_size=1, max_size=20))
def test_every_prompt_is_in_one_part_of_each_kind(prompts):
    parts = slices([example(prompt) for prompt in prompts])
    for kind in (("english", "not-english"), ("code", "no-code")):
        assert np.all(sum(parts[name].astype(int) for name in kind if name in parts) == 1)
    sizes = [members.astype(int) for name, members in parts.items() if name.startswith("prompt-")]
    assert np.all(sum(sizes) == 1)
    assert all(members.any() for members in parts.values())


def test_bands_of_answers_leave_out_what_a_bound_does_not_tell():
    rows = [example(tokens=t) for t in (0, 63, 64, 256, 768)]
    rows += [example(tokens=300, reason="length"), example(tokens=800, reason="abort")]
    parts = {name: np.flatnonzero(members).tolist() for name, members in by_answer(rows).items()}
    assert parts == {"answer-0": [0, 1], "answer-64": [2], "answer-256": [3], "answer-768": [4, 6]}


def test_bands_of_novelty():
    parts = by_novelty([0.0, 0.49, 0.5, 0.95, 1.0])
    assert {name: np.flatnonzero(m).tolist() for name, m in parts.items()} == {
        "novelty-0": [0, 1],
        "novelty-0.5": [2],
        "novelty-0.95": [3, 4],
    }


def test_rows_of_a_slice_are_judged_by_themselves():
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 500, 80)
    rows = [
        example(f"{'```' if i % 2 else ''} {'é' * (i % 40 == 0)} {i}", int(t))
        for i, t in enumerate(tokens)
    ]
    scores = tokens + rng.normal(size=80) * 100
    forecasts = [
        Forecast(float(s), tuple([100.0] * len(LEVELS)), "r", "1", novelty=0.9 * (i % 2))
        for i, s in enumerate(scores)
    ]
    found = {row.name: row for row in by_slice(forecasts, rows)}
    assert found["code"].rows == 40
    assert found["code"].tau == pytest.approx(kendalltau(scores[1::2], tokens[1::2]).statistic)
    assert found["code"].p50 == pytest.approx(np.mean(tokens[1::2] <= 100))
    assert found["novelty-0.5"].tau == found["code"].tau
    assert "not-english" not in found  # too few
    plain = [replace(f, novelty=0.0) for f in forecasts]
    assert not any(row.name.startswith("novelty") for row in by_slice(plain, rows))


def test_draws_stand_side_by_side():
    rows = [
        example("a", 1),
        example("b", 2),
        example("a", 3, "length"),
        example("a", 4, model="other"),
        example("a", 5),
    ]
    draws = Draws.of(rows)
    assert draws.first.tolist() == [0, 1, 3]
    assert np.array_equal(
        draws.tokens, [[1, 3, 5], [2, np.nan, np.nan], [4, np.nan, np.nan]], equal_nan=True
    )
    assert draws.censored.tolist() == [[False, True, False], [False] * 3, [False] * 3]
    assert draws.several.tolist() == [True, False, False]
    assert prompt_numbers(rows).tolist() == [0, 1, 0, 0, 0]
    assert Draws.of([]).several.tolist() == []


def test_of_a_prompt_that_everybody_asks_the_first_draws_count():
    draws = Draws.of([example("b", 7), *(example("hi", tokens) for tokens in range(1000))])
    assert draws.tokens.shape == (2, MOST_DRAWS)
    assert draws.tokens[1].tolist() == list(range(MOST_DRAWS))
