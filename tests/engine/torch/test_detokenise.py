"""Pieces of text add up to the whole, and no piece shows half a character."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.detokenise import ByBytes, InContext
from engine.vocabulary import Vocabulary

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)


def byte_decode(ids):
    """One token per byte: every character beyond ASCII spans several tokens."""
    return bytes(ids).decode("utf-8", errors="replace")


def pieces(text, ids):
    return [*(text.add(i) for i in ids), text.finish()]


def in_context():
    return InContext(byte_decode)


def by_bytes():
    return ByBytes(lambda i: bytes([i]))


@pytest.mark.parametrize("start", [in_context, by_bytes])
@given(expected=TEXT)
@settings(max_examples=200)
def test_any_text_comes_through_whole_characters_only(start, expected):
    got = pieces(start(), expected.encode())
    assert "".join(got) == expected
    if "\ufffd" not in expected:
        assert all("\ufffd" not in piece for piece in got)


@given(st.binary(max_size=60))
@settings(max_examples=300)
def test_bytes_that_are_no_text_come_out_as_decoding_all_of_them_would(noise):
    assert "".join(pieces(ByBytes(lambda i: bytes([i])), noise)) == byte_decode(noise)


def test_bytes_that_are_no_text_are_not_held_back_for_ever():
    got = pieces(InContext(byte_decode), [0x80] * 100)
    assert "".join(got) == "\ufffd" * 100
    assert max(len(piece) for piece in got) <= 8


def test_a_leading_space_that_decoding_strips_is_kept_between_tokens():
    words = {1: " the", 2: " sea", 3: ""}
    text = InContext(lambda ids: "".join(words[i] for i in ids).removeprefix(" "))
    assert "".join(pieces(text, [1, 3, 2, 2])) == "the sea sea"


@pytest.fixture(scope="module")
def tokenizer(bundled_folder):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(bundled_folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["Grüße, žluťoučký kůň!", "日本語のテキスト、そして漢字。", "👩‍👩‍👧‍👦 family 🏳️‍🌈 flag",
     "tabs\tand\n\n  spaces ", "العربية हिन्दी ไทย"],
)  # fmt: skip
@pytest.mark.parametrize("kind", [ByBytes, InContext])
def test_the_bundled_tokenizer(tokenizer, text, kind):
    vocabulary = Vocabulary(tokenizer)
    ids = tokenizer(text)["input_ids"] + [tokenizer.eos_token_id]
    made = vocabulary.detokeniser(True)
    assert isinstance(made, ByBytes)
    if kind is InContext:
        made = InContext(lambda ids: vocabulary.text(ids, True))
    got = pieces(made, ids)
    assert "".join(got) == text
    assert all("\ufffd" not in piece for piece in got)


@pytest.mark.slow
@pytest.mark.parametrize("skip", [True, False])
def test_any_tokens_of_the_bundled_tokenizer_are_what_it_decodes_at_once(tokenizer, skip):
    """Tokens at random: broken characters, special tokens, and ids beyond its own."""
    vocabulary = Vocabulary(tokenizer)

    @given(st.lists(st.integers(0, len(tokenizer) + 20), max_size=40))
    @settings(max_examples=200, deadline=None)
    def check(ids):
        assert "".join(pieces(vocabulary.detokeniser(skip), ids)) == vocabulary.text(ids, skip)

    check()


def sentence_pieces():
    """A tokenizer in the manner of Llama 2: spaces as a character of their own, bytes as tokens."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    words = ["<unk>", "▁the", "▁sea", "s", "<0xE2>", "<0x82>", "<0xAC>", "▁"]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
         decoders.Strip(" ", 1, 0)]
    )  # fmt: skip
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")


def test_a_tokenizer_of_sentence_pieces():
    vocabulary = Vocabulary(sentence_pieces())
    ids = [1, 2, 3, 7, 4, 5, 6, 1]
    got = pieces(vocabulary.detokeniser(True), ids)
    assert "".join(got) == vocabulary.text(ids, True) == "the seas € the"
    assert all("\ufffd" not in piece for piece in got)
    parts = [b" the", b" sea", b"s", b" ", b"\xe2", b"\x82", b"\xac", b" the"]
    assert [vocabulary.bytes_of(i) for i in ids] == parts
