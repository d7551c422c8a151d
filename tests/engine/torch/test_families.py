"""Every family either gives the tokens of ``transformers.generate`` or is refused with a reason."""

import copy

import pytest

from engine.architecture import positions
from engine.core.config import AdmissionConfig, AdmissionMode
from engine.core.scheduler import SchedulerConfig
from engine.probe import Geometry, probe
from engine.sampling import SamplingParams
from tests.engine.torch.families import LONGROPE, ORIGINAL, REFUSED, SERVED, build
from tests.engine.torch.reference import random_prompts, reference

#: Prompts in chunks, decodes beside them, and too few blocks for all.
CONFIG = SchedulerConfig(
    max_num_seqs=6,
    max_num_batched_tokens=16,
    block_size=4,
    num_blocks=28,
    admission=AdmissionConfig(AdmissionMode.OFF),
)
TOKENS = 14
GREEDY = SamplingParams(max_tokens=TOKENS, temperature=0.0, ignore_eos=True)


@pytest.mark.parametrize("kind", SERVED)
def test_served_exactly(make_model, serve, kind):
    network = build(kind, SERVED[kind][1])
    prompts = random_prompts(6, 128, 1, 35)
    expected = reference(copy.deepcopy(network), prompts, TOKENS)
    assert len({tuple(tokens) for tokens in expected.values()}) > 1, "a model that says one thing"
    served = serve(make_model(network), prompts, GREEDY, CONFIG)
    assert served.tokens == expected
    assert served.later_chunks > 0
    assert served.mixed_steps > 0
    assert served.preemptions > 0


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma2", "mistral"])
def test_without_compiled_kernels_as_well(make_model, serve, kind):
    network = build(kind, SERVED[kind][1])
    prompts = random_prompts(6, 128, 1, 35)
    expected = reference(copy.deepcopy(network), prompts, TOKENS)
    assert serve(make_model(network, kernels=None), prompts, GREEDY, CONFIG).tokens == expected


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_with_the_reason(make_model, kind):
    problem, change = REFUSED[kind]
    with pytest.raises(ValueError, match=f"{kind}.*{problem}"):
        make_model(build(kind, change))


def test_the_shape_of_attention_is_found_by_looking():
    assert probe(build("llama", {})) == Geometry(layers=2, kv_heads=2, head_dim=8)
    assert probe(build("gpt2", {})) == Geometry(layers=2, kv_heads=4, head_dim=8)
    # Latent attention: keys of 8 + 8, values of 8.
    latent = SERVED["deepseek_v3"][1]
    assert probe(build("deepseek_v3", latent)) == Geometry(layers=2, kv_heads=4, head_dim=16)


def test_looking_changes_nothing():
    network = build("gemma2", SERVED["gemma2"][1])
    before = network.config.to_dict()
    probe(network)
    assert network.config.to_dict() == before
    assert network.config._attn_implementation == before.get("_attn_implementation", "eager")


def test_a_window_that_the_attention_function_is_not_told_of_is_found(make_model):
    """PhiMoE makes a mask for its window and doesn't pass the window on."""
    change = SERVED["phimoe"][1] | {"sliding_window": 6}
    with pytest.raises(ValueError, match="layer 0 has an attention mask that is neither"):
        make_model(build("phimoe", change))


def test_the_context_can_be_lowered_and_not_raised():
    config = build("llama", {}).config
    assert positions(config) == (128, "")
    assert positions(config, 100) == (100, "")
    with pytest.raises(ValueError, match=r"max_model_len: 129 is beyond the 128 positions"):
        positions(config, 129)
    with pytest.raises(ValueError, match="max_model_len must be >= 0"):
        positions(config, -1)


def test_a_model_without_a_longest_position_takes_the_limit_it_is_given():
    config = build("bloom", {"max_position_embeddings": None}).config
    with pytest.raises(ValueError, match="does not say how many positions it takes; set max_model"):
        positions(config)
    assert positions(config, 64) == (64, "")


def test_longrope_is_served_as_far_as_its_first_length(make_model, caplog):
    network = build("phi3", SERVED["phi3"][1] | LONGROPE)
    assert positions(network.config)[0] == ORIGINAL
    with pytest.raises(ValueError, match=f"beyond the {ORIGINAL} positions.*longrope"):
        positions(network.config, ORIGINAL + 1)
    assert make_model(network).context_length == ORIGINAL
    assert "limited to 64 positions: beyond them its longrope" in caplog.text


def test_a_dynamic_rope_is_served_as_far_as_it_does_not_change(make_model, serve):
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 100.0}
    network = build("llama", {"rope_parameters": rope})
    prompts = random_prompts(6, 128, 1, 35)
    expected = reference(copy.deepcopy(network), prompts, TOKENS)
    model = make_model(network)
    assert model.context_length == 128
    assert serve(model, prompts, GREEDY, CONFIG).tokens == expected
