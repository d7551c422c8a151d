"""The engine against ``transformers.generate``, token by token, in float32."""

import pytest

from engine.sampling import SamplingParams
from tests.engine.torch.reference import ROOMY, TIGHT, random_prompts, reference


@pytest.mark.parametrize("config", [ROOMY, TIGHT], ids=["roomy", "tight"])
def test_tiny_model_gives_the_tokens_of_transformers(make_network, make_model, serve, config):
    prompts = random_prompts(24, 1000, 1, 70)
    expected = reference(make_network(), prompts, 25)
    greedy = SamplingParams(max_tokens=25, temperature=0.0)
    served = serve(make_model(make_network()), prompts, greedy, config)
    assert served.tokens == expected
    if config is TIGHT:
        assert served.preemptions > 0
        assert served.later_chunks > 0
        assert served.mixed_steps > 0


@pytest.mark.parametrize(
    "change",
    [
        {"num_key_value_heads": 9},
        {"num_key_value_heads": 1},
        {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False},
        {"hidden_act": "gelu"},
        {"head_dim": 24, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0,
         "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 64}},
    ],
    ids=["multi-head", "multi-query", "biases, untied", "transformers' forward", "llama 3 angles"],
)  # fmt: skip
def test_other_shapes_of_llama(make_network, make_model, serve, change):
    prompts = random_prompts(6, 1000, 2, 30, seed=1)
    expected = reference(make_network(**change), prompts, 12)
    greedy = SamplingParams(max_tokens=12, temperature=0.0)
    assert serve(make_model(make_network(**change)), prompts, greedy, TIGHT).tokens == expected


def test_what_is_sampled_does_not_depend_on_company(tiny_model, serve):
    """Same seed, same tokens: alone, in a batch, and when preempted in between."""
    prompts = random_prompts(12, 1000, 1, 60, seed=2)
    sampling = {
        name: SamplingParams(max_tokens=30, temperature=0.9, top_p=0.9, top_k=40, seed=i,
                             ignore_eos=True, repetition_penalty=1.2)
        for i, name in enumerate(prompts)
    }  # fmt: skip
    together = serve(tiny_model, prompts, sampling, ROOMY).tokens
    squeezed = serve(tiny_model, prompts, sampling, TIGHT)
    assert squeezed.preemptions > 0
    assert squeezed.tokens == together
    for name, ids in prompts.items():
        assert serve(tiny_model, {name: ids}, sampling, ROOMY).tokens[name] == together[name]


def test_a_request_that_goes_wrong_hurts_nobody(make_network, make_model, serve):
    """A token whose embedding is NaN poisons its request, also for who gets its blocks later."""
    network = make_network(tie_word_embeddings=False)
    network.model.embed_tokens.weight.data[7] = float("nan")
    model = make_model(network)
    prompts = random_prompts(16, 1000, 10, 60, seed=3)
    prompts = {n: [t if t != 7 else 8 for t in ids] for n, ids in prompts.items()}
    greedy = SamplingParams(max_tokens=15, temperature=0.0, ignore_eos=True)
    expected = serve(model, prompts, greedy, TIGHT).tokens
    bad = {f"bad{i}": [*ids[:5], 7, *ids[5:]] for i, ids in enumerate(prompts.values())}
    mixed = {n: ids for pair in zip(bad.items(), prompts.items(), strict=True) for n, ids in pair}
    served = serve(model, mixed, greedy, TIGHT)
    assert served.failed == set(bad)
    assert served.tokens == expected
