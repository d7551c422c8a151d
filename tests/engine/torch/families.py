"""Tiny models with random weights of the architectures that transformers has, and what to expect.

``python -m tests.engine.torch.families`` runs them all and prints the table for the README.
"""

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

_BASE = {
    "vocab_size": 128, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    "initializer_range": 0.3,
}  # fmt: skip
_WINDOW = {"sliding_window": 6}
_MIXED = {**_WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
_QWEN = {**_MIXED, "use_sliding_window": True}
_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LOCAL_MOE = {"num_local_experts": 4, "num_experts_per_tok": 2}
_LATENT = {
    "head_dim": None, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 16, "first_k_dense_replace": 1,
    "n_group": 1, "topk_group": 1,
}  # fmt: skip
#: The length that the model below was first trained for, by name of its rotary embedding.
ORIGINAL = 64
LONGROPE = {
    "max_position_embeddings": 128, "original_max_position_embeddings": ORIGINAL,
    "rope_parameters": {
        "rope_type": "longrope", "rope_theta": 100.0, "short_factor": [1.0, 1.1, 1.2, 1.3],
        "long_factor": [2.0, 3.0, 4.0, 5.0], "original_max_position_embeddings": ORIGINAL,
    },
}  # fmt: skip

#: Families that are served: what is special about them, and how the tiny one differs from _BASE.
SERVED = {
    "llama": ("", {}),
    "mistral": ("sliding window", _WINDOW),
    "mixtral": ("experts, sliding window", _WINDOW | _LOCAL_MOE),
    "ministral": ("sliding window in some layers", _MIXED),
    "ministral3": ("", {}),
    "qwen2": ("sliding window in some layers", _QWEN),
    "qwen3": ("sliding window in some layers", _QWEN),
    "qwen2_moe": ("experts", _MOE | {"shared_expert_intermediate_size": 16}),
    "qwen3_moe": ("experts", _MOE),
    "gemma": ("", {}),
    "gemma2": ("sliding window in some layers, soft caps", _WINDOW),
    "gemma3_text": ("sliding window in some layers", _MIXED),
    "vaultgemma": ("sliding window in some layers, soft caps", _WINDOW),
    "gpt_oss": ("sinks, experts, sliding window in some layers", _WINDOW | _LOCAL_MOE),
    "phi": ("partial rotary", {}),
    "phi3": ("sliding window; longrope up to its first length", _WINDOW | LONGROPE),
    "phimoe": ("experts", _LOCAL_MOE),
    "gpt2": ("learned positions", {}),
    "gpt_bigcode": ("learned positions, one key head", {}),
    "gpt_neox": ("partial rotary", {}),
    "gptj": ("partial rotary", {"rotary_dim": 4}),
    "codegen": ("partial rotary", {"rotary_dim": 4}),
    "opt": ("learned positions", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "biogpt": ("learned positions", {}),
    "olmo": ("", {}),
    "olmo2": ("", {}),
    "olmo3": ("sliding window in some layers", _MIXED),
    "olmoe": ("experts", _MOE),
    "flex_olmo": ("experts", _MOE),
    "starcoder2": ("sliding window", _WINDOW),
    "stablelm": ("partial rotary", {"partial_rotary_factor": 0.5}),
    "persimmon": ("partial rotary", {}),
    "nemotron": ("partial rotary", {}),
    "cohere": ("", {}),
    "cohere2": ("sliding window in some layers", _MIXED),
    "granite": ("", {}),
    "granitemoe": ("experts", _LOCAL_MOE),
    "smollm3": ("layers without positions", {}),
    "glm": ("partial rotary", {}),
    "glm4": ("partial rotary", {}),
    "glm4_moe": ("experts", {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
                             "topk_group": 1, "moe_intermediate_size": 16}),
    "deepseek_v2": ("latent attention, experts", _LATENT),
    "deepseek_v3": ("latent attention, experts", _LATENT),
    "exaone4": ("sliding window in some layers", _MIXED),
    "ernie4_5": ("", {}),
    "hunyuan_v1_dense": ("", {}),
    "seed_oss": ("", {}),
    "helium": ("", {}),
    "arcee": ("", {}),
    "apertus": ("", {}),
    "nanochat": ("", {}),
    "internlm3": ("", {}),
    "minimax_m2": ("experts", _LOCAL_MOE),
}  # fmt: skip

#: Families that are refused: what the message says, and how the tiny one differs from _BASE.
REFUSED = {
    "bloom": ("written out", {}),
    "mpt": ("written out", {}),
    "falcon": ("written out", {"head_dim": None}),
    "gpt_neo": ("written out", {"num_hidden_layers": None, "num_layers": 2, "num_heads": 4,
                                "attention_types": [[["global", "local"], 1]]}),
    "openai-gpt": ("written out", {}),
    "rwkv": ("written out", {}),
    "mamba": ("linear_attention layers", {}),
    "jamba": ("linear_attention layers", {}),
    "qwen3_next": ("linear_attention layers", {}),
    "llama4_text": ("chunked_attention layers", {}),
    "gemma4_text": ("layers differ in heads or their size", {}),
    "diffllama": ("run more than once", {}),
    "doge": ("neither causal nor the window", {}),
}  # fmt: skip


def build(kind, change):
    """A tiny network of ``kind`` in float32. ``None`` in ``change`` leaves a setting out."""
    torch.manual_seed(0)
    settings = {name: value for name, value in (_BASE | change).items() if value is not None}
    network = AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**settings)).float().eval()
    network.generation_config.eos_token_id = None  # all answers are as long as they may be
    return network


def main():
    """The families as Markdown; each was checked in this very run."""
    import copy
    import logging

    from engine.models import adopt
    from tests.engine.torch.conftest import LetterTokenizer
    from tests.engine.torch.reference import random_prompts, reference
    from tests.engine.torch.server import serve_all
    from tests.engine.torch.test_families import CONFIG, GREEDY, TOKENS

    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    prompts = random_prompts(6, 128, 1, 35)
    print("| family | | what is special |\n|---|---|---|")
    for kind, (special, change) in SERVED.items():
        network = build(kind, change)
        model = adopt(copy.deepcopy(network), LetterTokenizer(), kind, torch.device("cpu"))
        same = serve_all(model, prompts, GREEDY, CONFIG).tokens == reference(
            network, prompts, TOKENS
        )
        print(f"| {kind} | {'exact' if same else 'DIFFERS'} | {special} |")
    for kind, (_, change) in REFUSED.items():
        try:
            adopt(build(kind, change), LetterTokenizer(), kind, torch.device("cpu"))
            print(f"| {kind} | SERVED | |")
        except ValueError as error:
            said = str(error).removeprefix("model: ").removeprefix(f"{kind} ")
            print(f"| {kind} | refused | {said.removeprefix('cannot be served: ')} |")


if __name__ == "__main__":
    main()
