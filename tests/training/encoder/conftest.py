"""A BERT small enough to train in a second, and prompts whose lengths follow from their words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ranker.types import FinishReason
from training.encoder.config import EncoderConfig
from training.sources import Example

WORDS = ["essay", "date", "of", "the", "river", "about", "winter", "in", "a", "small", "town"]


def tiny_bert(folder: Path) -> Path:
    """Two layers of width 32 over a vocabulary of whole words, as a Hugging Face directory."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: i for i, word in enumerate(special + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = BertModel(
            BertConfig(
                vocab_size=len(vocabulary),
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=64,
                max_position_embeddings=32,
            )
        )
    encoder.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def invented(rows: int, model: str = "toy", seed: int = 0) -> list[Example]:
    """ "essay" asks for about 400 tokens, "date" for about 20; limits of 450 cut some answers."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(rows):
        word, middle = [("essay", 400), ("date", 20)][rng.integers(2)]
        rest = " ".join(rng.choice(WORDS[2:], rng.integers(2, 14)))
        tokens = int(np.ceil(rng.lognormal(np.log(middle), 0.5)))
        reason = FinishReason.STOP if tokens <= 450 else FinishReason.LENGTH
        split = "validation" if i % 3 == 0 else "train"
        prompt = f"{word} {rest}"
        found.append(Example(prompt, min(tokens, 450), reason, model, str(i), split))
    return found


@pytest.fixture(scope="session")
def backbone(tmp_path_factory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("tiny bert é"))


@pytest.fixture(scope="session")
def rows() -> list[Example]:
    return invented(150)


def quick_config() -> EncoderConfig:
    return EncoderConfig(
        length=12,
        batch=16,
        epochs=3,
        thresholds=5,
        learning_rate=2e-3,
        head_learning_rate=1e-2,
        precision="fp32",
        checkpoint_every=5,
        threads=1,
        train_words=True,
    )


@pytest.fixture(scope="session")
def quick() -> EncoderConfig:
    return quick_config()
