"""Where an answer ends: stop texts across tokens, stop tokens, least and most lengths."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.detokenise import ByBytes
from engine.output import Output
from engine.sampling import SamplingParams
from engine.stop import StopRule
from engine.stop_text import StopTexts
from ranker.types import FinishReason

EOS, STOP, LENGTH = 0, FinishReason.STOP, FinishReason.LENGTH
#: Few letters, so that stop texts begin and overlap often.
WORDS = st.text(alphabet="abé👩‍", max_size=30)
STOPS = st.lists(st.text(alphabet="abé👩‍", min_size=1, max_size=5), min_size=1, max_size=4)


def cut(text, stops, include):
    """By definition: read on until a stop text is complete; the longest that is ends it."""
    for end in range(1, len(text) + 1):
        done = [stop for stop in stops if text[:end].endswith(stop)]
        if done:
            found = max(done, key=len)
            return text[: end if include else end - len(found)], found
    return text, None


@given(WORDS, STOPS, st.lists(st.integers(0, 30), max_size=6), st.booleans())
@example("aab", ["ab"], [1, 2], False)
@settings(max_examples=500)
def test_a_stop_text_is_found_however_the_text_comes_in_pieces(text, stops, cuts, include):
    expected, found = cut(text, stops, include)
    search, shown = StopTexts(stops, include), ""
    borders = [0, *sorted(min(at, len(text)) for at in cuts), len(text)]
    for start, end in pairwise(borders):
        shown += search.add(text[start:end])
        # Nothing is shown that could turn out to belong to a stop text.
        assert expected.startswith(shown)
        if search.found is not None:
            break
    assert (shown + search.finish(), search.found) == (expected, found)


@given(WORDS, STOPS)
def test_no_more_is_held_back_than_must_be(text, stops):
    search = StopTexts(stops, False)
    shown = search.add(text)
    held = text[len(shown) :]
    if search.found is None:
        assert held == "" or any(stop.startswith(held) for stop in stops)


def output(prompt=3, window=100, **params):
    """Tokens are bytes."""
    rule = StopRule({EOS}, window)
    return Output(prompt, SamplingParams(**params), rule, lambda _: ByBytes(lambda i: bytes([i])))


def run(made, tokens):
    """Text, tokens that count, and why it ended."""
    text = ""
    for count, token in enumerate(tokens, start=1):
        text += made.add(token)
        if made.reason is not None:
            return text, count, made.reason, made.stop
    return text + made.finish(), len(tokens), made.reason, made.stop


@given(WORDS, STOPS, st.booleans())
@settings(max_examples=300)
def test_stop_texts_across_tokens_of_single_bytes(text, stops, include):
    made = output(stop=tuple(stops), include_stop_str_in_output=include, window=10_000)
    expected, found = cut(text, stops, include)
    got, count, reason, stop = run(made, text.encode())
    assert (got, stop) == (expected, found)
    assert reason is (None if found is None else STOP)
    if found is not None:  # tokens behind the end do not count
        ends = text.index(expected) + len(expected) + (0 if include else len(found))
        assert count == len(text[:ends].encode())


def test_an_end_of_sequence_token_shows_nothing_and_names_no_stop():
    assert run(output(), [97, 98, EOS, 99]) == ("ab", 3, STOP, None)
    assert run(output(ignore_eos=True, max_tokens=4), [97, EOS, 98, 99]) == (
        "a\0bc",
        4,
        LENGTH,
        None,
    )


def test_a_stop_token_is_named_and_shown_only_when_asked_for():
    asked = {"stop_token_ids": (99,)}
    assert run(output(**asked), [97, 99, 98]) == ("a", 2, STOP, 99)
    assert run(output(include_stop_str_in_output=True, **asked), [97, 99]) == ("ac", 2, STOP, 99)
    # Both an end of sequence and a stop token: an end, as ever.
    assert run(output(stop_token_ids=(EOS,)), [EOS]) == ("", 1, STOP, None)
    assert run(output(stop_token_ids=(EOS,), ignore_eos=True), [EOS]) == ("", 1, STOP, EOS)


def test_stop_texts_do_not_count_in_the_least_length():
    made = output(stop=("ab",), min_tokens=3)
    # The first "ab" and one that begins there are passed over.
    assert run(made, b"ababcab") == ("ababc", 7, STOP, "ab")


def test_what_is_held_back_comes_with_the_limit():
    assert run(output(stop=("bc",), max_tokens=2), b"ab") == ("ab", 2, LENGTH, None)
    assert run(output(max_tokens=2), "a€".encode()) == ("a\ufffd", 2, LENGTH, None)
    assert run(output(window=5), b"abcdef") == ("ab", 2, LENGTH, None)


@pytest.mark.parametrize("include", [False, True])
def test_the_limit_and_a_stop_text_at_one_token(include):
    made = output(stop=("ab",), max_tokens=3, include_stop_str_in_output=include)
    assert run(made, b"cab") == ("cab" if include else "c", 3, STOP, "ab")
