"""Which models of transformers are known well enough to be run as a program, and as which."""

from __future__ import annotations

import importlib
from typing import Any

from transformers.activations import ACT2FN

from engine.native.angles import Angles
from engine.native.library import DTYPES, Native
from engine.native.program import Builder, Program
from engine.native.records import Act

#: Model types of Llama's plan: norms, rotated heads, a gated layer. What sets them apart is read
#: off their modules: biases, norms of heads, windows, soft caps.
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2")
#: Norms that multiply by 1 + weight.
_OFFSET = ("gemma", "gemma2")
#: Rotary embeddings whose angles depend on the longest position of a batch.
_BY_LENGTH = ("dynamic", "longrope")
_ACTS = {
    type(ACT2FN[name]): act
    for name, act in (
        ("silu", Act.SILU), ("gelu_pytorch_tanh", Act.GELU_TANH), ("gelu", Act.GELU),
    )
}  # fmt: skip


def fits(network: Any) -> bool:
    """Whether ``network`` is one of them, of exactly the classes that transformers has."""
    kind = network.config.model_type
    if kind not in FAMILIES or network.dtype not in DTYPES:
        return False
    if network.model.rotary_emb.rope_type in _BY_LENGTH:
        return False
    known = importlib.import_module(f"transformers.models.{kind}.modeling_{kind}")
    name = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3",
            "gemma": "Gemma", "gemma2": "Gemma2"}[kind]  # fmt: skip
    attention, mlp, norm, layer, model = (
        getattr(known, name + part)
        for part in ("Attention", "MLP", "RMSNorm", "DecoderLayer", "ForCausalLM")
    )
    return (
        type(network) is model
        and type(network.model.norm) is norm
        and all(
            type(one) is layer
            and type(one.self_attn) is attention
            and type(one.mlp) is mlp
            and type(one.input_layernorm) is norm
            and type(one.mlp.act_fn) in _ACTS
            for one in network.model.layers
        )
    )


def compile_network(network: Any, native: Native) -> Program:
    """``network``, which :func:`fits`, as a program. It can be dropped afterwards."""
    config, body = network.config, network.model
    offset = 1.0 if config.model_type in _OFFSET else 0.0
    build = Builder(native, network.dtype)
    attention = body.layers[0].self_attn
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    dim = attention.head_dim
    hidden, normed, added = (build.buffer(config.hidden_size) for _ in range(3))
    qkv, mixed = build.buffer((heads + 2 * kv_heads) * dim), build.buffer(heads * dim)
    gate_up = build.buffer(2 * config.intermediate_size)
    gated = build.buffer(config.intermediate_size)
    embed = body.embed_tokens
    scale = getattr(embed, "embed_scale", None)
    build.embed(hidden, embed.weight, 1.0 if scale is None else float(scale.to(embed.weight.dtype)))
    for index, layer in enumerate(body.layers):
        attention, mlp = layer.self_attn, layer.mlp
        build.norm(hidden, normed, layer.input_layernorm, offset)
        build.linear(normed, qkv, [attention.q_proj, attention.k_proj, attention.v_proj])
        norms = (attention.q_norm, attention.k_norm) if hasattr(attention, "q_norm") else None
        build.rotate(qkv, norms, offset)
        window, softcap = _window(attention), getattr(attention, "attn_logit_softcapping", None)
        build.attend(qkv, mixed, index, attention.scaling, window, softcap or 0.0)
        if hasattr(layer, "pre_feedforward_layernorm"):
            build.linear(mixed, added, [attention.o_proj])
            build.norm(added, hidden, layer.post_attention_layernorm, offset, residual=hidden)
            before, after = layer.pre_feedforward_layernorm, layer.post_feedforward_layernorm
        else:
            build.linear(mixed, hidden, [attention.o_proj], residual=hidden)
            before, after = layer.post_attention_layernorm, None
        build.norm(hidden, normed, before, offset)
        build.linear(normed, gate_up, [mlp.gate_proj, mlp.up_proj])
        build.gated(gate_up, gated, _ACTS[type(mlp.act_fn)])
        if after is None:
            build.linear(gated, hidden, [mlp.down_proj], residual=hidden)
        else:
            build.linear(gated, added, [mlp.down_proj])
            build.norm(added, hidden, after, offset, residual=hidden)
    build.gather(hidden, added)
    build.norm(added, normed, body.norm, offset)
    build.head(normed, network.lm_head, getattr(config, "final_logit_softcapping", None) or 0.0)
    return build.finish((heads, kv_heads, dim), Angles(body.rotary_emb))


def _window(attention: Any) -> int:
    """Mistral reads it off its configuration. Others have it by layer, or know of none, whatever
    their configuration says."""
    where = attention.config if attention.config.model_type == "mistral" else attention
    return int(getattr(where, "sliding_window", None) or 0)
