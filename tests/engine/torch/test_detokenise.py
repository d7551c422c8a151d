"""Pieces of text add up to the whole, and no piece shows half a character."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.detokenise import Detokeniser


def byte_decode(ids):
    """One token per byte: every character beyond ASCII spans several tokens."""
    return bytes(ids).decode("utf-8", errors="replace")


def pieces(decode, ids):
    text = Detokeniser(decode)
    return [*(text.add(i) for i in ids), text.finish()]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60))
@settings(max_examples=200)
def test_any_text_comes_through_whole_characters_only(expected):
    got = pieces(byte_decode, expected.encode())
    assert "".join(got) == expected
    if "\ufffd" not in expected:
        assert all("\ufffd" not in piece for piece in got)


def test_bytes_that_are_no_text_are_not_held_back_for_ever():
    got = pieces(byte_decode, [0x80] * 100)
    assert "".join(got) == "\ufffd" * 100
    assert max(len(piece) for piece in got) <= 8


def test_a_leading_space_that_decoding_strips_is_kept_between_tokens():
    words = {1: " the", 2: " sea", 3: ""}
    got = pieces(lambda ids: "".join(words[i] for i in ids).removeprefix(" "), [1, 3, 2, 2])
    assert "".join(got) == "the sea sea"


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["Grüße, žluťoučký kůň!", "日本語のテキスト、そして漢字。", "👩‍👩‍👧‍👦 family 🏳️‍🌈 flag",
     "tabs\tand\n\n  spaces ", "العربية हिन्दी ไทย"],
)  # fmt: skip
def test_the_bundled_tokenizer(bundled_folder, text):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(bundled_folder)

    def decode(ids):
        return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    ids = tokenizer(text)["input_ids"] + [tokenizer.eos_token_id]
    got = pieces(decode, ids)
    assert "".join(got) == text
    assert all("\ufffd" not in piece for piece in got)
