"""The decoder that is read: its chat template, its layers, its states."""

from __future__ import annotations

from fnmatch import fnmatch

import numpy as np
import pytest
import torch

from ranker.encoder.text import EncoderText
from tests.training.encoder.conftest import tiny_bert
from tests.training.probe.conftest import TEMPLATE, tiny_llama
from training.encoder import backbone
from training.probe.decoder import (
    chat_tokenizer,
    cut,
    layers,
    load_decoder,
    located,
    most_tokens,
    states,
)


def _template_ids(folder, prompt):
    from transformers import AutoTokenizer

    turn = [{"role": "user", "content": prompt}]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=False)


def test_a_prompt_stands_in_the_chat_template_up_to_where_the_answer_begins(decoder_folder):
    text = EncoderText(chat_tokenizer(decoder_folder), 24, separated=False)
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


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("<|im_start|> assistant", "must name the prompt once"),
        ("{{ raise_exception('no such role') }}", "chat template fail .*no such role"),
        ("{{ messages[0]['content'] }} {{ messages[0]['content'] }}", "must name the prompt once"),
    ],
)
def test_a_template_that_is_of_no_use_is_refused(tmp_path, template, message):
    folder = tiny_llama(tmp_path / "odd", template=template)
    with pytest.raises(ValueError, match=f"probe.backbone .*{message}"):
        chat_tokenizer(folder)


def test_a_template_that_ends_in_one_token_stands_around_a_prompt_and_not_inside(tmp_path):
    template = "<|im_start|> user {{ messages[0]['content'] }} assistant"
    folder = tiny_llama(tmp_path / "short", template=template)
    text = EncoderText(chat_tokenizer(folder), 12, separated=False)
    (ids,) = text.ids(["essay " * 30 + "town"])
    end = text.tokenizer.token_to_id("assistant")
    assert (len(ids), ids[-1], ids.count(end)) == (12, end, 1)


def test_a_template_that_names_the_day_is_the_same_every_day(tmp_path):
    day = "{% if date_string is not defined %}{{ strftime_now('%d') }}{% endif %}"
    folder = tiny_llama(tmp_path / "dated", template=day + TEMPLATE)
    plain = tiny_llama(tmp_path / "plain")
    found = [EncoderText(chat_tokenizer(f), 24).ids(["essay"]) for f in (folder, plain)]
    assert found[0] == found[1]


def test_a_template_of_the_hub_is_fetched(decoder_folder):
    assert (decoder_folder / "chat_template.jinja").is_file()
    assert any(fnmatch("chat_template.jinja", pattern) for pattern in backbone._FILES)


def test_only_what_every_layer_sees_and_an_artifact_holds_is_read(decoder_folder, monkeypatch):
    decoder = load_decoder(decoder_folder)
    assert most_tokens(decoder) == 64
    decoder.config.sliding_window = 16
    assert most_tokens(decoder) == 16
    decoder.config.layer_types = ["full_attention"] * 3
    assert most_tokens(decoder) == 64
    layer = sum(4 * weight.numel() for weight in decoder.layers[0].parameters())
    whole = sum(4 * weight.numel() for weight in decoder.parameters())
    monkeypatch.setattr("training.probe.decoder._MOST_BYTES", whole - layer)
    assert layers(decoder) == 2
    monkeypatch.setattr("training.probe.decoder._MOST_BYTES", layer)
    assert layers(decoder) == 0


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
