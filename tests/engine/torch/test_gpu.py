"""The engine on a GPU against transformers on the same GPU."""

import pytest
import torch

from engine.sampling import SamplingParams
from tests.engine.torch.conftest import tiny_network
from tests.engine.torch.gpu_parts import (
    DEVICE,
    FEW,
    NEEDS_GPU,
    PAGES,
    SMOLLM2,
    SWAP,
    TINY,
    exact_float32,
)
from tests.engine.torch.reference import ROOMY, TIGHT, random_prompts, reference

pytestmark = NEEDS_GPU
full_float32 = pytest.fixture(autouse=True, scope="module")(exact_float32)
#: Logits closer than this, relative to the largest, are a tie that either side may break.
TIE = 1e-5


def gap(network, prompt, expected, got):
    """Relative distance of the two logits where ``got`` first leaves ``expected``."""
    where = next(i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b)
    row = torch.tensor([prompt + expected[:where]], device=network.device)
    with torch.inference_mode():
        logits = network(input_ids=row).logits[0, -1].double()
    return float((logits[expected[where]] - logits[got[where]]).abs() / logits.abs().max())


def ties(network, prompts, expected, got):
    """The requests whose tokens differ, and by how little the logits did."""
    assert got.keys() == expected.keys()
    return {
        name: gap(network, prompts[name], tokens, got[name])
        for name, tokens in expected.items()
        if got[name] != tokens
    }


@pytest.fixture(scope="module", params=[TINY, SMOLLM2], ids=["tiny", "smollm2"])
def generated(request):
    """24 prompts and what transformers makes of each alone: shape, network, prompts, tokens."""
    shape = request.param
    prompts = random_prompts(24, shape["vocab_size"], 1, 70)
    plain = tiny_network(**shape).to(DEVICE)
    return shape, plain, prompts, reference(plain, prompts, 25)


@pytest.mark.parametrize("config", [ROOMY, TIGHT, SWAP], ids=["roomy", "tight", "swap"])
def test_float32_gives_the_tokens_of_transformers(
    make_network, make_model, serve, record_property, generated, config
):
    """All prompts together; ``tight`` adds chunked prompts, mixed steps and preemptions, ``swap``
    moves to pinned memory and back."""
    shape, plain, prompts, expected = generated
    greedy = SamplingParams(max_tokens=25, temperature=0.0)
    served = serve(make_model(make_network(**shape), DEVICE), prompts, greedy, config)
    off = ties(plain, prompts, expected, served.tokens)
    record_property("same", f"{len(expected) - len(off)} of {len(expected)}")
    assert all(size < TIE for size in off.values()), off
    assert len(off) <= 1, off
    if config is SWAP:
        assert served.stats.swapped_tokens > 0
    if config is not ROOMY:
        assert served.preemptions > 0
        assert served.later_chunks > 0
        assert served.mixed_steps > 0


def test_a_prefix_that_others_computed_changes_nothing(make_network, make_model, make_server):
    shared = random_prompts(1, 1000, 64, 64, seed=7)["p0"]
    prompts = {n: shared + ids for n, ids in random_prompts(6, 1000, 3, 20, seed=8).items()}
    plain = make_network(**TINY).to(DEVICE)
    expected = reference(plain, prompts, 12)
    greedy = SamplingParams(max_tokens=12, temperature=0.0)
    server = make_server(make_model(make_network(**TINY), DEVICE), ROOMY)
    for name, ids in prompts.items():
        server.submit(name, ids, greedy)
        server.run()
    off = ties(plain, prompts, expected, server.tokens)
    assert all(size < TIE for size in off.values()), off
    assert sum(cached > 0 for cached in server.cached.values()) == 5


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


@pytest.mark.parametrize("config", [PAGES, FEW], ids=["roomy", "tight"])
def test_bfloat16_begins_as_transformers_does(
    make_network, make_model, serve, record_property, config
):
    prompts = random_prompts(24, SMOLLM2["vocab_size"], 200, 256)
    expected = reference(make_network(**SMOLLM2, dtype=torch.bfloat16).to(DEVICE), prompts, 1)
    model = make_model(make_network(**SMOLLM2, dtype=torch.bfloat16), DEVICE)
    record_property("attention", model.attention.kernel.name)
    greedy = SamplingParams(max_tokens=80, temperature=0.0, ignore_eos=True)
    served = serve(model, prompts, greedy, config)
    assert all(len(tokens) == 80 for tokens in served.tokens.values())
    same = sum(served.tokens[name][0] == tokens[0] for name, tokens in expected.items())
    record_property("same", f"{same} of {len(expected)}")
    # 8 bits of mantissa leave few ties among random logits, but some.
    assert same >= 20
    assert config is PAGES or served.preemptions > 0


def test_bfloat16_gives_the_same_again(make_network, make_model, serve):
    prompts = random_prompts(16, SMOLLM2["vocab_size"], 1, 300, seed=4)
    model = make_model(make_network(**SMOLLM2, dtype=torch.bfloat16), DEVICE)
    greedy = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True)
    first, second = (serve(model, prompts, greedy, PAGES).tokens for _ in range(2))
    assert first == second


def test_a_request_that_goes_wrong_fails_alone(make_network, make_model, serve):
    network = make_network(**TINY, tie_word_embeddings=False)
    network.model.embed_tokens.weight.data[7] = float("nan")
    greedy = SamplingParams(max_tokens=5, ignore_eos=True, seed=1)
    served = serve(make_model(network, DEVICE), {"bad": [5, 7], "good": [5, 6]}, greedy, ROOMY)
    assert served.failed == {"bad"}
    assert len(served.tokens["good"]) == 5
