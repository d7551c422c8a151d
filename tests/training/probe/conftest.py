"""A decoder small enough to read in a second, with a chat template."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.encoder.conftest import WORDS, invented
from training.sources import Example

TEMPLATE = (
    "{% for message in messages %}<|im_start|> {{ message['role'] }} {{ message['content'] }} "
    "<|im_end|>{% endfor %}{% if add_generation_prompt %} <|im_start|> assistant{% endif %}"
)


def tiny_llama(folder: Path, template: str = TEMPLATE) -> Path:
    """Three layers of width 32 over a vocabulary of whole words, as a Hugging Face directory."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaModel, PreTrainedTokenizerFast

    special = ["<pad>", "<unk>", "<|im_start|>", "<|im_end|>", "user", "assistant"]
    vocabulary = {word: i for i, word in enumerate(special + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        decoder = LlamaModel(
            LlamaConfig(
                vocab_size=len(vocabulary),
                hidden_size=32,
                num_hidden_layers=3,
                num_attention_heads=4,
                num_key_value_heads=2,
                intermediate_size=64,
                max_position_embeddings=64,
            )
        )
    decoder.save_pretrained(folder)
    written = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>"
    )
    written.chat_template = template or None
    written.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def decoder_folder(tmp_path_factory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("tiny llama é"))


@pytest.fixture(scope="session")
def rows() -> list[Example]:
    return invented(300)
