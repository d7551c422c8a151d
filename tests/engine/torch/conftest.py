"""Models for the tests: the bundled one, and tiny random ones that need no file."""

import os
from pathlib import Path

import pytest
import torch

from engine.core import policies
from engine.core.scheduler import Scheduler
from engine.loop import EngineLoop
from engine.models import Model, adopt
from engine.native import library
from engine.native.library import Native
from engine.stop import StopRule
from tests.engine.torch.scripted import CONFIG, EOS, Script, texts
from tests.engine.torch.server import Server, serve_all


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny products gain nothing from more, and OpenMP's threads wait for each other when the
    machine is busy: these tests would take ten times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class LetterTokenizer:
    """As much of a tokenizer as a model with random weights needs."""

    chat_template = None
    eos_token_id = None

    def __call__(self, text, **_):
        return {"input_ids": [ord(c) % 90 for c in text]}

    def decode(self, ids, **_):
        return "".join(chr(65 + i % 26) for i in ids)


def tiny_network(layers=3, seed=0, dtype=torch.float32, **config):
    """A Llama with SmolLM2's ratios (three queries per key, tied embedding) and random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    settings = {
        "vocab_size": 1000, "hidden_size": 144, "intermediate_size": 384,
        "num_hidden_layers": layers, "num_attention_heads": 9, "num_key_value_heads": 3,
        "head_dim": 16, "max_position_embeddings": 512, "tie_word_embeddings": True,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "initializer_range": 0.2,
    }  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**(settings | config))).to(dtype).eval()


@pytest.fixture(scope="session")
def native(request) -> Native | None:
    """The compiled kernels, as the engine has them on a CPU; none without a compiler."""
    default = request.config.rootpath / ".cache" / "models"
    return library.load(Path(os.environ.get("SHORTFIRST_TEST_CACHE", default)) / "native")


@pytest.fixture
def make_network():
    return tiny_network


@pytest.fixture
def tiny_model(native) -> Model:
    return adopt(tiny_network(), LetterTokenizer(), "tiny", torch.device("cpu"), native=native)


@pytest.fixture
def make_model(native):
    """``kernels``: compiled ones, unless they are ``None``."""

    def make(network, device="cpu", kernels=native) -> Model:
        return adopt(network, LetterTokenizer(), "tiny", torch.device(device), native=kernels)

    return make


@pytest.fixture(scope="session")
def bundled_folder(request) -> Path:
    """The converted bundled model; converted once and kept in a folder that git ignores."""
    from engine.bundled import bundled_gguf, prepare_bundled

    try:
        bundled_gguf()
    except ValueError as error:
        pytest.skip(str(error))
    default = request.config.rootpath / ".cache" / "models"
    return prepare_bundled(Path(os.environ.get("SHORTFIRST_TEST_CACHE", default)))


@pytest.fixture
def serve():
    return serve_all


@pytest.fixture
def make_server():
    return Server


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def outcomes():
    return []


@pytest.fixture
def engine(script, outcomes):
    loop = EngineLoop(
        Scheduler(CONFIG, policies.make("fcfs")), script, StopRule({EOS}, 100), texts,
        served_model="m", on_outcome=outcomes.append,
    )  # fmt: skip
    loop.start()
    yield loop
    script.gate.set()
    loop.close()
