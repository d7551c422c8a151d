"""The decoder that is read: its chat template, its layers, its states."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ranker.encoder.text import EncoderText
from tests.training.encoder.conftest import tiny_bert
from tests.training.probe.conftest import tiny_llama
from training.probe.decoder import chat_tokenizer, cut, layers, load_decoder, located, states


def _template_ids(folder, prompt):
    from transformers import AutoTokenizer

    turn = [{"role": "user", "content": prompt}]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=False)


def test_a_prompt_stands_in_the_chat_template_up_to_where_the_answer_begins(decoder_folder):
    text = EncoderText(chat_tokenizer(decoder_folder), 24)
    for prompt in ("essay about the river", "", "date"):
        assert text.ids([prompt])[0] == _template_ids(decoder_folder, prompt)
    (long,) = text.ids(["essay " * 30 + "town"])
    frame = _template_ids(decoder_folder, "")
    assert len(long) == 24
    # The frame stays whole, and nothing of it stands between the two ends.
    assert (long[:2], long[-3:]) == (frame[:2], frame[-3:])
    assert long[-4] == text.tokenizer.token_to_id("town")
    assert not set(frame) & set(long[2:-3])


def test_without_a_template_the_prompt_stands_alone(tmp_path):
    folder = tiny_llama(tmp_path / "bare", template="")
    assert EncoderText(chat_tokenizer(folder), 24).ids(["essay about"]) == [[6, 11]]  # essay, about


def test_a_template_without_the_prompt_is_refused(tmp_path):
    folder = tiny_llama(tmp_path / "mute", template="<|im_start|> assistant")
    with pytest.raises(ValueError, match="must name the prompt once"):
        chat_tokenizer(folder)


def test_states_are_those_of_the_model_cut_after_the_layer(decoder_folder):
    rows = [[6, 7, 8], [9], [10, 6, 7, 8, 11]]
    whole = load_decoder(decoder_folder)
    assert layers(whole) == 3
    found = states(whole, rows, [1, 3], batch=2)
    for column, layer in enumerate((1, 3)):
        decoder = load_decoder(decoder_folder)
        cut(decoder, layer)
        for i, ids in enumerate(rows):
            with torch.no_grad():
                out = decoder(input_ids=torch.tensor([ids]), use_cache=False).last_hidden_state
            np.testing.assert_allclose(found[i, column], out[0, -1].numpy(), atol=2e-3)


def test_what_is_no_such_decoder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no decoder that transformers can load"):
        load_decoder(tmp_path)
    with pytest.raises(ValueError, match="a decoder built like Llama is needed"):
        load_decoder(tiny_bert(tmp_path / "bert"))


def test_a_directory_is_where_it_is(decoder_folder):
    with located(str(decoder_folder)) as folder:
        assert folder == decoder_folder
