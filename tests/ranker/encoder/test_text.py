"""Prompts as token ids: both ends kept, any text taken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from ranker.encoder.text import EncoderText, padded

WORDS = [f"w{i}" for i in range(50)]
CLS, SEP, UNK = 2, 3, 1


def made() -> Tokenizer:
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)]
    )
    return tokenizer


TEXT = EncoderText(made(), length=12, head_share=0.625)


def test_a_short_prompt_is_whole():
    assert TEXT.ids(["w0 w1", ""]) == [[CLS, 4, 5, SEP], [CLS, SEP]]


def test_a_long_prompt_keeps_both_ends():
    (ids,) = TEXT.ids([" ".join(WORDS[:20])])
    head, tail = [4, 5, 6, 7, 8], [20, 21, 22, 23]
    assert ids == [CLS, *head, SEP, *tail, SEP]


def test_one_that_just_fits_is_not_cut():
    (ids,) = TEXT.ids([" ".join(WORDS[:10])])
    assert ids == [CLS, *range(4, 14), SEP]


def test_a_megabyte_costs_its_ends():
    (ids,) = TEXT.ids(["w0 " * 400_000 + "w1"])
    assert len(ids) == 12
    assert ids[1] == 4
    assert ids[-2] == 5


def test_without_special_tokens_a_blank_prompt_is_padding():
    tokenizer = made()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    assert EncoderText(tokenizer, length=12).ids(["", "w0"]) == [[0], [4]]


def test_truncation_and_padding_of_the_tokenizer_are_its_own_affair():
    tokenizer = made()
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=30, pad_id=7)
    text = EncoderText(tokenizer, length=12)
    assert text.ids(["w0", " ".join(WORDS[:9])]) == [[CLS, 4, SEP], [CLS, *range(4, 13), SEP]]
    assert text.pad == 7
    assert tokenizer.truncation["max_length"] == 4


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(), max_size=300))
def test_any_text_is_taken(prompt):
    (ids,) = TEXT.ids([prompt])
    assert 2 <= len(ids) <= 12
    assert (ids[0], ids[-1]) == (CLS, SEP)


@pytest.mark.parametrize("prompt", ["\ud800", "w0 \udfff w1", "\0", "\u202e w0"])
def test_so_is_what_is_no_text(prompt):
    assert len(TEXT.ids([prompt])[0]) >= 2


def test_a_batch_is_filled_up():
    ids, mask = padded([[5], [6, 7, 8]], pad=9)
    assert ids.tolist() == [[5, 9, 9], [6, 7, 8]]
    assert mask.tolist() == [[1, 0, 0], [1, 1, 1]]
    assert (ids.dtype, padded([], 0)[0].shape) == (np.int64, (0, 0))


@pytest.mark.parametrize(
    ("options", "says"), [({"length": 4}, "at least 5 tokens"), ({"head_share": 1.0}, "inside")]
)
def test_nothing_left_of_a_prompt_is_refused(options, says):
    with pytest.raises(ValueError, match=rf"encoder\.\w+ .*{says}"):
        EncoderText(made(), **options)
