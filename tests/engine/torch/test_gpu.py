"""The engine on a GPU against transformers on the same GPU. Needs no file and no network."""

import time
from dataclasses import replace

import pytest
import torch

from engine.core.config import PreemptionConfig, PreemptionMode
from engine.core.plan import Plan, Step
from engine.executor import TorchExecutor
from engine.models import Model
from engine.runner import Runner
from engine.sampling import SamplingParams
from tests.engine.torch.reference import ROOMY, TIGHT, random_prompts, reference

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]
DEVICE = "cuda"
#: The bundled model's shape, under random weights that are spread enough to disagree.
SMOLLM2 = {
    "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9,
    "num_key_value_heads": 3, "head_dim": 64, "max_position_embeddings": 2048,
    "initializer_range": 0.06, "layers": 30,
}  # fmt: skip
TINY = {"vocab_size": 1000, "layers": 3}
SWAP = replace(TIGHT, host_blocks=40, preemption=PreemptionConfig(PreemptionMode.SWAP))
#: Logits closer than this, relative to the largest, are a tie that either side may break.
TIE = 1e-5


@pytest.fixture(autouse=True)
def full_float32():
    """TF32 has 10 bits of mantissa: products in it are not float32's."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def gap(network, prompt, expected, got):
    """Relative distance of the two logits where ``got`` first leaves ``expected``."""
    where = next(i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b)
    row = torch.tensor([prompt + expected[:where]], device=network.device)
    with torch.inference_mode():
        logits = network(input_ids=row).logits[0, -1].double()
    return float((logits[expected[where]] - logits[got[where]]).abs() / logits.abs().max())


@pytest.mark.parametrize("config", [ROOMY, TIGHT, SWAP], ids=["roomy", "tight", "swap"])
@pytest.mark.parametrize("shape", [TINY, SMOLLM2], ids=["tiny", "smollm2"])
def test_float32_gives_the_tokens_of_transformers(make_network, make_model, serve, shape, config):
    """24 prompts together; ``tight`` adds chunked prompts, mixed steps and preemptions, ``swap``
    moves to pinned memory and back."""
    prompts = random_prompts(24, shape["vocab_size"], 1, 70)
    plain = make_network(**shape).to(DEVICE)
    expected = reference(plain, prompts, 25)
    greedy = SamplingParams(max_tokens=25, temperature=0.0)
    served = serve(make_model(make_network(**shape), DEVICE), prompts, greedy, config)
    assert served.tokens.keys() == expected.keys()
    ties = {
        name: gap(plain, prompts[name], tokens, served.tokens[name])
        for name, tokens in expected.items()
        if served.tokens[name] != tokens
    }
    assert all(size < TIE for size in ties.values()), ties
    assert len(ties) <= 1, ties
    if config is SWAP:
        assert served.stats.swapped_tokens > 0
    if config is not ROOMY:
        assert served.preemptions > 0
        assert served.later_chunks > 0
        assert served.mixed_steps > 0


def test_what_is_sampled_does_not_depend_on_company(make_network, make_model, serve):
    prompts = random_prompts(12, 1000, 1, 60, seed=2)
    sampling = {
        name: SamplingParams(max_tokens=30, temperature=0.9, top_p=0.9, top_k=40, seed=i,
                             ignore_eos=True, repetition_penalty=1.2)
        for i, name in enumerate(prompts)
    }  # fmt: skip
    model = make_model(make_network(**TINY), DEVICE)
    together = serve(model, prompts, sampling, ROOMY).tokens
    squeezed = serve(model, prompts, sampling, TIGHT)
    assert squeezed.preemptions > 0
    assert squeezed.tokens == together


def test_bfloat16_begins_as_transformers_does(make_network, make_model, serve):
    prompts = random_prompts(24, SMOLLM2["vocab_size"], 1, 70)
    expected = reference(make_network(**SMOLLM2, dtype=torch.bfloat16).to(DEVICE), prompts, 1)
    model = make_model(make_network(**SMOLLM2, dtype=torch.bfloat16), DEVICE)
    greedy = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True)
    served = serve(model, prompts, greedy, TIGHT)
    assert all(len(tokens) == 20 for tokens in served.tokens.values())
    same = sum(served.tokens[name][0] == tokens[0] for name, tokens in expected.items())
    # 8 bits of mantissa leave few ties among random logits, but some.
    assert same >= 20


def test_a_request_that_goes_wrong_fails_alone(make_network, make_model, serve):
    network = make_network(**TINY, tie_word_embeddings=False)
    network.model.embed_tokens.weight.data[7] = float("nan")
    greedy = SamplingParams(max_tokens=5, ignore_eos=True, seed=1)
    served = serve(make_model(network, DEVICE), {"bad": [5, 7], "good": [5, 6]}, greedy, ROOMY)
    assert served.failed == {"bad"}
    assert len(served.tokens["good"]) == 5


@pytest.fixture(scope="module")
def smollm2_bf16():
    """Made once for the speeds."""
    return {}


@pytest.mark.parametrize("batch", [16, 64])
def test_speed_of_decode_is_printed(make_network, make_model, smollm2_bf16, capsys, batch):
    """No assertion on time; it is measured so that somebody can read it."""
    if not smollm2_bf16:
        network = make_network(**SMOLLM2, dtype=torch.bfloat16)
        smollm2_bf16["model"] = make_model(network, DEVICE)
    speed = decode_speed(smollm2_bf16["model"], batch, context=256, steps=40)
    with capsys.disabled():
        print(
            f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}, bfloat16, SmolLM2-135M "
            f"shape, context 256, decode of {batch}: {speed:,.0f} tokens/s"
        )
    assert speed > 0


def decode_speed(model: Model, batch: int, context: int, steps: int) -> float:
    """Tokens per second of decode steps with sampling, without a scheduler."""
    size = 16
    blocks = -(-(context + steps + 10) // size)
    executor = TorchExecutor(Runner(model, model.kv_shape(batch * blocks, size)))
    table = [tuple(range(i * blocks, (i + 1) * blocks)) for i in range(batch)]
    for i, ids in enumerate(random_prompts(batch, 1000, context, context).values()):
        executor.add(str(i), ids, SamplingParams(seed=i, temperature=0.7))
        executor.run(Plan(0, (Step(str(i), 0, context, table[i], True),)))
    begun = 0.0
    for number in range(steps + 5):
        if number == 5:
            begun = time.perf_counter()
        at = context + number
        executor.run(Plan(number, tuple(Step(str(i), at, 1, table[i], True) for i in range(batch))))
    # Each step ends with a copy to the host, so nothing is left in flight.
    return batch * steps / (time.perf_counter() - begun)
