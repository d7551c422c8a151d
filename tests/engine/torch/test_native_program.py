"""Whole steps in C: against transformers, and against themselves in another batch."""

import pytest
import torch
from transformers import AttentionInterface

from engine.attention.interface import NAME, paged_attention
from engine.attention.native import NativePaged
from engine.forward import Transformers
from engine.linear import NativeLinear
from engine.llama import Llama
from engine.native import library, program
from engine.native.families import fits
from engine.native.program import Program
from tests.engine.torch.native_parts import (
    CPU,
    FAMILIES,
    Runs,
    network,
    prompts_of,
    ragged,
    whole,
)
from tests.engine.torch.reference import TIGHT, random_prompts, reference


@pytest.fixture(autouse=True)
def _compiled(native):
    if native is None:
        pytest.skip("no C compiler")
    AttentionInterface.register(NAME, paged_attention)


LENGTHS = [1, 5, 17, 40, 73]


@pytest.mark.parametrize("family", FAMILIES)
def test_it_gives_the_logits_of_transformers(native, family):
    made = network(family)
    made.set_attn_implementation("eager")
    prompts = prompts_of(LENGTHS)
    expected = [made(torch.tensor([ids]), use_cache=False).logits[0] for ids in prompts]
    runs = Runs.of(made, native, prompts)
    assert isinstance(runs.forward, Program)
    for rounds in (whole(LENGTHS), ragged(LENGTHS)):
        found = runs.logits(rounds)
        for i, right in enumerate(expected):
            torch.testing.assert_close(found[i], right, atol=3e-4, rtol=3e-4)


def test_bfloat16_is_as_near_to_float32_as_transformers_is(native):
    prompts = prompts_of(LENGTHS)
    for family in ("llama", "qwen3", "gemma2"):
        made = network(family, torch.bfloat16)
        made.set_attn_implementation("eager")
        rows = [torch.tensor([ids]) for ids in prompts]
        own = [made(row, use_cache=False).logits[0].float() for row in rows]
        runs = Runs.of(made, native, prompts)
        found = runs.logits(whole(LENGTHS))
        exact = made.float()
        exact.set_attn_implementation("eager")
        truth = [exact(row, use_cache=False).logits[0] for row in rows]
        errors = [
            sum(float((a - b).square().sum()) for a, b in zip(some, truth, strict=True))
            for some in (found.values(), own)
        ]
        assert errors[0] <= 1.2 * errors[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2"])
def test_bits_do_not_depend_on_the_batch_or_the_chunks(native, family, dtype):
    prompts = prompts_of(LENGTHS)
    made = network(family, dtype)
    runs = Runs.of(made, native, prompts)
    expected = runs.logits(whole(LENGTHS))
    alone = [{i: (0, n)} for i, n in enumerate(LENGTHS)]
    one_by_one = [
        {i: (at, at + 1) for i, n in enumerate(LENGTHS) if at < n} for at in range(max(LENGTHS))
    ]
    ways = [alone, one_by_one, *(ragged(LENGTHS, seed) for seed in range(3))]
    many = Runs(runs.forward, runs.attention, runs.shape, prompts)
    for rounds in ways:
        many.pool = runs.attention.pool(runs.shape, dtype, CPU)
        found = many.logits(rounds)
        assert all(torch.equal(found[i], expected[i]) for i in expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_threads_change_no_bit(native, dtype):
    prompts = prompts_of(LENGTHS)
    expected = Runs.of(network("llama", dtype), native, prompts).logits(ragged(LENGTHS))
    for threads in (2, 4):
        other = library.Native(native.file, threads)
        found = Runs.of(network("llama", dtype), other, prompts).logits(ragged(LENGTHS))
        assert all(torch.equal(found[i], expected[i]) for i in expected)


def test_other_forwards_have_their_linears_from_it_too(native):
    """Transformers' own forward over compiled attention and products."""
    prompts = prompts_of(LENGTHS)
    made = network("qwen2")
    made.set_attn_implementation("eager")
    expected = [made(torch.tensor([ids]), use_cache=False).logits[0] for ids in prompts]
    made.__class__ = type("Other", (type(made),), {})
    runs = Runs.of(made, native, prompts)
    assert isinstance(runs.forward, Transformers)
    assert type(made.lm_head) is type(made.model.layers[1].self_attn.q_proj) is NativeLinear
    found = runs.logits(ragged(LENGTHS))
    for i, right in enumerate(expected):
        torch.testing.assert_close(found[i], right, atol=3e-4, rtol=3e-4)


def test_a_token_whose_embedding_is_nan_spoils_its_own_request_alone(native):
    prompts = prompts_of(LENGTHS)
    made = network("qwen2")
    expected = Runs.of(made, native, prompts).logits(whole(LENGTHS))
    made = network("qwen2")
    made.model.embed_tokens.weight[1] = float("nan")
    spoilt = [*prompts[:2], [*prompts[2][:9], 1, *prompts[2][10:]], *prompts[3:]]
    found = Runs.of(made, native, spoilt).logits(whole(LENGTHS))
    assert found[2][9:].isnan().all()
    for i in (0, 1, 3, 4):
        assert torch.equal(found[i], expected[i])


def test_positions_beyond_the_first_table_of_angles(native, monkeypatch):
    prompts = prompts_of([60])
    made = network("llama, llama3 angles, biases")
    expected = Runs.of(made, native, prompts).logits(whole([60]))
    monkeypatch.setattr("engine.native.angles._FIRST", 8)
    made = network("llama, llama3 angles, biases")
    found = Runs.of(made, native, prompts).logits(ragged([60]))
    assert torch.equal(found[0], expected[0])


def test_only_the_classes_that_are_known_become_programs(make_network):
    assert fits(make_network())
    assert not fits(make_network(hidden_act="relu"))
    assert not fits(make_network(dtype=torch.float16))
    other = make_network()
    other.model.layers[1].mlp.__class__ = type("Other", (type(other.model.layers[1].mlp),), {})
    assert not fits(other)
    scaled = make_network(
        rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    )
    assert not fits(scaled)


def test_a_program_that_is_off_is_not_used(make_network, make_model, monkeypatch, caplog):
    right = program.Builder.gated
    monkeypatch.setattr(
        program.Builder, "gated", lambda self, input, output, act: right(self, input, output, 1)
    )
    assert isinstance(make_model(make_network()).forward, Llama)
    assert "the program is off" in caplog.text


def test_without_compiled_kernels_torch_serves_the_same_tokens(make_network, make_model, serve):
    from engine.sampling import SamplingParams

    prompts = random_prompts(6, 1000, 2, 30, seed=1)
    greedy = SamplingParams(max_tokens=12, temperature=0.0)
    model = make_model(make_network(), kernels=None)
    assert not isinstance(model.attention, NativePaged)
    expected = reference(make_network(), prompts, 12)
    assert serve(model, prompts, greedy, TIGHT).tokens == expected
