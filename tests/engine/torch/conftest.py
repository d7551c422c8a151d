"""Models for the tests: the bundled one, and tiny random ones that need no file."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from engine.core import policies
from engine.core.plan import Plan
from engine.core.request import Request
from engine.core.scheduler import Scheduler, SchedulerConfig
from engine.executor import TorchExecutor
from engine.loop import EngineLoop
from engine.models import Model, adopt
from engine.runner import Runner
from engine.sampling import SamplingParams
from engine.stop import StopRule
from ranker.types import FinishReason
from tests.engine.torch.scripted import CONFIG, EOS, Script, decode


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


@pytest.fixture
def make_network():
    return tiny_network


@pytest.fixture
def tiny_model() -> Model:
    return adopt(tiny_network(), LetterTokenizer(), "tiny", torch.device("cpu"))


@pytest.fixture
def make_model():
    def make(network, device="cpu") -> Model:
        return adopt(network, LetterTokenizer(), "tiny", torch.device(device))

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


@dataclass
class Served:
    """What one run of :func:`serve` did."""

    tokens: dict[str, list[int]]
    plans: list[Plan] = field(repr=False)
    failed: set[str] = field(default_factory=set)

    @property
    def preemptions(self) -> int:
        return sum(len(plan.preempted) for plan in self.plans)

    @property
    def mixed_steps(self) -> int:
        return sum(0 < plan.decode_tokens < plan.tokens for plan in self.plans)

    @property
    def later_chunks(self) -> int:
        return sum(step.start > 0 and not step.decodes for p in self.plans for step in p.steps)


def serve_all(
    model: Model,
    prompts: dict[str, list[int]],
    sampling: SamplingParams | dict[str, SamplingParams],
    config: SchedulerConfig,
) -> Served:
    """Generate for all prompts together, without the loop's thread."""
    runner = Runner(model, model.kv_shape(config.num_blocks, config.block_size))
    executor, scheduler = TorchExecutor(runner), Scheduler(config, policies.make("fcfs"))
    stop = StopRule(model.eos, min(model.context_length, config.capacity))
    for order, (name, ids) in enumerate(prompts.items()):
        params = sampling[name] if isinstance(sampling, dict) else sampling
        executor.add(name, ids, params)
        scheduler.add(Request(name, float(order), len(ids)))
    served = Served({}, [])
    while scheduler.has_work:
        plan = scheduler.schedule(0.0)
        served.plans.append(plan)
        sampled = executor.run(plan)
        reasons = {name: stop.check(executor.sequence(name)) for name in sampled}
        lost = {s.request_id for s in plan.steps if s.samples and s.request_id not in sampled}
        reasons |= dict.fromkeys(lost, FinishReason.ERROR)
        served.failed |= lost
        ended = scheduler.commit(plan, {k: r for k, r in reasons.items() if r}, 0.0)
        scheduler.check_integrity()
        for request in ended:
            if request.id not in served.failed:
                sequence = executor.sequence(request.id)
                served.tokens[request.id] = sequence.tokens[sequence.prompt_tokens :]
            executor.remove(request.id)
    return served


@pytest.fixture
def serve():
    return serve_all


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def outcomes():
    return []


@pytest.fixture
def engine(script, outcomes):
    loop = EngineLoop(
        Scheduler(CONFIG, policies.make("fcfs")), script, StopRule({EOS}, 100), decode,
        served_model="m", on_outcome=outcomes.append,
    )  # fmt: skip
    loop.start()
    yield loop
    script.gate.set()
    loop.close()
