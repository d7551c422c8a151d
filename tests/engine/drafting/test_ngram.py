"""Prompt lookup against a search through everything, and what it costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafting.drafter import Wanted
from engine.drafting.ngram import NgramConfig, NgramDrafter, NgramIndex
from engine.sampling import SamplingParams
from engine.sequence import Sequence


def search(tokens, config, most, begin):
    """What the index must find, by looking at every place from ``begin`` on."""
    low, size = config.low, len(tokens)
    ends = [
        end for end in range(size - 1, begin + low - 1, -1)
        if tokens[end - low : end] == tokens[size - low :]
    ][: config.tries]  # fmt: skip
    best, longest = 0, 0
    for end in ends:
        same = max(
            n for n in range(low, min(config.high, end - begin) + 1)
            if tokens[end - n : end] == tokens[size - n :]
        )  # fmt: skip
        if same > longest:
            best, longest = end, same
    line = list(tokens)
    for i in range(min(most, longest)):
        line.append(line[best + i])
    return line[size:]


@given(
    chunks=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=1, max_size=12),
    low=st.integers(1, 3),
    more=st.integers(0, 3),
    tries=st.integers(1, 4),
    window=st.sampled_from([7, 12, 1000]),
    most=st.integers(1, 6),
)
def test_it_finds_what_a_search_finds(chunks, low, more, tries, window, most):
    config = NgramConfig(low, low + more, tries, window)
    index = NgramIndex(config)
    tokens, begin = [], 0
    for chunk in chunks:
        tokens += chunk
        if len(tokens) - begin > 2 * window:
            begin = len(tokens) - window
        assert index.propose(tokens, most) == search(tokens, config, most, begin)


def test_no_more_is_guessed_than_was_matched():
    index = NgramIndex(NgramConfig(low=2, high=4))
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert index.propose([*text, 0, 1, 2], 8) == [3, 4]
    assert index.propose([*text, 0, 1, 2, 3], 8) == [4, 5, 6]
    assert index.propose([*text, 0, 1, 2, 3, 4, 5, 6], 8) == [7, 8, 9, 0]
    assert index.propose([*text, 0, 1, 2, 3, 4, 5, 6], 2) == [7, 8]


def test_a_loop_is_guessed_beyond_its_end():
    assert NgramIndex(NgramConfig(low=2, high=8)).propose([7, 8, 9] * 3 + [7], 6) == [
        8, 9, 7, 8, 9, 7,
    ]  # fmt: skip


def test_of_two_places_the_longer_match_wins_and_else_the_newer():
    index = NgramIndex(NgramConfig(low=1, high=8))
    assert index.propose([5, 1, 2, 30, 1, 2, 40, 5, 1, 2], 1) == [30]
    index = NgramIndex(NgramConfig(low=1, high=8))
    assert index.propose([6, 1, 2, 30, 7, 1, 2, 40, 5, 1, 2], 1) == [40]


def test_nothing_matches_where_nothing_repeats():
    index = NgramIndex(NgramConfig())
    assert index.propose([4], 4) == []
    assert index.propose(list(range(100)), 4) == []


def test_memory_is_bounded():
    config = NgramConfig(window=64)
    index, tokens = NgramIndex(config), []
    for i in range(1000):
        tokens.append(i % 61)
        index.propose(tokens, 4)
    assert len(index._earlier) <= 2 * config.window
    assert len(index._newest) <= 2 * config.window


def test_requests_do_not_see_each_other_and_are_forgotten():
    drafter = NgramDrafter()
    same = [1, 2, 3, 1, 2]
    first, second = (
        Sequence.start(name, ids, SamplingParams())
        for name, ids in (("a", same), ("b", [9, 8, 7, 1, 2]))
    )
    assert drafter.propose([Wanted(first, 3), Wanted(second, 3)]) == [[3, 1], []]
    drafter.forget("a")
    drafter.forget("unknown")
    again = Sequence.start("a", [4, 5, 1, 2], SamplingParams())
    assert drafter.propose([Wanted(again, 3)]) == [[]]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"low": 0}, "low"),
        ({"low": 3, "high": 2}, "high"),
        ({"tries": 0}, "tries"),
        ({"window": 8}, "window"),
    ],
)
def test_a_wrong_field_is_named(fields, field):
    with pytest.raises(ValueError, match=f"ngram.{field} must be"):
        NgramConfig(**fields)
