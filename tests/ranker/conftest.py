"""A small ranker, trained on invented prompts whose lengths follow from their words."""

from __future__ import annotations

from dataclasses import replace
from string import ascii_lowercase
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ranker.blend import BlendModel
from ranker.calibration import CalibrationConfig
from ranker.length_ranker import LengthRanker
from ranker.scale import Scale
from ranker.types import LEVELS, FinishReason
from training.config import TrainConfig
from training.fit import train
from training.lexical_config import LexicalConfig, TreeConfig
from training.sources import Example

if TYPE_CHECKING:
    from onnx import ModelProto

    from ranker.encoder.model import EncoderModel, ProbeModel
    from ranker.encoder.network import LengthNetwork
    from ranker.encoder.text import EncoderText

LONG = ("essay", "chapter", "report", "story")
SHORT = ("capital", "synonym", "sum", "date")
FILLER = ("of", "the", "river", "about", "winter", "in", "a", "small", "town", "and", "trade")
VOCABULARY = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]"),
    *ascii_lowercase,
    *(f"##{letter}" for letter in ascii_lowercase),
)


def invented(rows: int, seed: int = 0) -> list[Example]:
    """Prompts that ask for much or for little; lengths lognormal around 400 or 20 tokens."""
    rng = np.random.default_rng(seed)
    examples = []
    for i in range(rows):
        much = bool(rng.integers(2))
        words = [str(rng.choice(LONG if much else SHORT))]
        words += [str(w) for w in rng.choice(FILLER, rng.integers(3, 12))]
        tokens = int(np.ceil(rng.lognormal(np.log(400 if much else 20), 0.5)))
        split = ("train", "train", "validation", "test")[i % 4]
        prompt = f"{' '.join(words)} {i}"
        examples.append(Example(prompt, tokens, FinishReason.STOP, "toy", str(i), split))
    return examples


@pytest.fixture(scope="session")
def examples() -> list[Example]:
    return invented(800)


@pytest.fixture(scope="session")
def ranker(examples: list[Example]) -> LengthRanker:
    config = TrainConfig(
        lexical=LexicalConfig(trees=TreeConfig(rounds=40)), calibration=CalibrationConfig(knots=9)
    )
    return train(examples, config, served_model="toy", name="length-ranker-toy").ranker


@pytest.fixture(scope="session")
def network() -> LengthNetwork:
    """Two layers of 32 numbers that nobody trained, and vectors of two served models."""
    torch = pytest.importorskip("torch")
    from transformers import BertConfig, BertModel

    from ranker.encoder.network import LengthNetwork

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        attn_implementation="eager",
    )
    network = LengthNetwork(BertModel(config), models=("a", "b"))
    for shift in (network.score_shift, network.quantile_shift):
        torch.nn.init.normal_(shift.vectors.weight[1:])
    return network


@pytest.fixture(scope="session")
def reading() -> EncoderText:
    """Letters and pieces of letters, at most 32 of them."""
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    from ranker.encoder.text import EncoderText

    numbers = {word: number for number, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return EncoderText(tokenizer, length=32)


@pytest.fixture(scope="session")
def graph(network: LengthNetwork) -> ModelProto:
    """The network in ONNX; made once, it takes seconds."""
    pytest.importorskip("onnxscript")
    from ranker.encoder.export import graph_of

    return graph_of(network)


@pytest.fixture(scope="session")
def encoder(network: LengthNetwork, reading: EncoderText, graph: ModelProto) -> EncoderModel:
    """The network as it serves."""
    pytest.importorskip("onnxruntime")
    from ranker.encoder.export import in_int8
    from ranker.encoder.model import EncoderModel

    return EncoderModel(in_int8(graph), reading, network.models)


@pytest.fixture(scope="session")
def probe(reading: EncoderText) -> ProbeModel:
    """A decoder of two layers that nobody trained, wider than a block, and a line through it."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    from transformers import LlamaConfig, LlamaModel

    from ranker.encoder.export import export_probe
    from ranker.encoder.probe import Line, ProbeNetwork

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=320,
        max_position_embeddings=32,
        attn_implementation="eager",
    )
    rng = np.random.default_rng(0)
    line = Line(
        np.zeros(192), np.ones(192), rng.normal(size=192), 0.5, 1.5, np.linspace(1, 5, len(LEVELS))
    )
    network = ProbeNetwork(LlamaModel(config).eval(), line).eval()
    return export_probe(network, replace(reading, separated=False))


@pytest.fixture(scope="session")
def blend(ranker: LengthRanker, encoder: EncoderModel) -> BlendModel:
    return BlendModel((ranker.model, encoder), (0.7, 0.3), (Scale(), Scale(-0.5, 2.0)))
