"""Llama's forward pass with fewer operators than transformers' own, on the same weights.

A decode step of a small model is a thousand small operators, and their fixed cost is a good part
of it. Here query, key and value are one product, gate and up another, the rotation is three
operators for queries and keys together, and nothing passes through modules that do nothing.
:mod:`engine.selftest` decides at load time whether the result can be trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from engine import linear
from engine.attention.interface import Spec, StepContext

#: Queries are scaled as they are rotated.
_SPEC = Spec(scale=1.0)
#: Maps ``[tokens, in]`` to ``[tokens, out]``.
Linear = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class _Layer:
    qkv: Linear
    output: Linear
    gate_up: Linear
    down: Linear
    attention_norm: torch.Tensor
    mlp_norm: torch.Tensor


def fits(network: Any) -> bool:
    """Whether ``network`` is the very class that :class:`Llama` re-writes, with its usual parts."""
    from transformers.models.llama import modeling_llama as known

    return (
        type(network) is known.LlamaForCausalLM
        and type(network.model.norm) is known.LlamaRMSNorm
        and all(
            type(layer) is known.LlamaDecoderLayer
            and type(layer.self_attn) is known.LlamaAttention
            and type(layer.mlp) is known.LlamaMLP
            for layer in network.model.layers
        )
        and network.config.hidden_act == "silu"
    )


class Llama:
    """A forward of ``network``, a ``LlamaForCausalLM``; see :class:`engine.forward.Forward`.

    With ``pack``, weights are laid out for oneDNN (:mod:`engine.linear`). ``network`` can be
    dropped afterwards; what is shared is the embedding and the norms.
    """

    def __init__(self, network: Any, *, pack: bool) -> None:
        config, body = network.config, network.model
        self._heads = config.num_attention_heads
        self._kv_heads = config.num_key_value_heads
        self._dim = body.layers[0].self_attn.head_dim
        self._scale = body.layers[0].self_attn.scaling
        self._eps = config.rms_norm_eps
        self._embedding = body.embed_tokens.weight
        self._rotary = body.rotary_emb
        self._norm = body.norm.weight
        self._head = linear.stack([network.lm_head], pack=pack)
        self._layers = [_layer(layer, pack) for layer in body.layers]

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor, step: StepContext
    ) -> torch.Tensor:
        hidden = F.embedding(ids, self._embedding)
        cos, sin = self._angles(hidden, positions)
        turned = self._heads + self._kv_heads
        count, half = len(ids), self._dim // 2
        for index, layer in enumerate(self._layers):
            qkv = layer.qkv(self._normed(hidden, layer.attention_norm)).view(count, -1, self._dim)
            qk = qkv[:, :turned]
            halves = torch.cat((qk[..., half:], qk[..., :half]), -1)
            qk = (qk * cos).addcmul_(halves, sin)
            q, k, v = qk[:, : self._heads], qk[:, self._heads :], qkv[:, turned:]
            mixed = step.backend.attend(q, k, v, step, index, _SPEC)
            hidden = layer.output(mixed.reshape(count, -1)).add_(hidden)
            gate, up = layer.gate_up(self._normed(hidden, layer.mlp_norm)).chunk(2, -1)
            hidden = layer.down(F.silu(gate).mul_(up)).add_(hidden)
        return self._head(self._normed(hidden.index_select(0, rows), self._norm))

    def _normed(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(hidden, weight.shape, weight, self._eps)

    def _angles(
        self, hidden: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and signed sine, ``[T, query + key heads, dim]``, the same for all layers.

        Queries come out multiplied by the scale of attention, at no cost.
        """
        cos, sin = (x[0, :, None] for x in self._rotary(hidden[None], positions[None]))
        half = self._dim // 2
        sin = torch.cat((-sin[..., :half], sin[..., half:]), -1)
        cos, sin = (
            torch.cat(
                (
                    (x * self._scale).expand(-1, self._heads, -1),
                    x.expand(-1, self._kv_heads, -1),
                ),
                1,
            )
            for x in (cos, sin)
        )
        return cos, sin


def _layer(layer: Any, pack: bool) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    return _Layer(
        qkv=linear.stack([attention.q_proj, attention.k_proj, attention.v_proj], pack=pack),
        output=linear.stack([attention.o_proj], pack=pack),
        gate_up=linear.stack([mlp.gate_proj, mlp.up_proj], pack=pack),
        down=linear.stack([mlp.down_proj], pack=pack),
        attention_norm=layer.input_layernorm.weight,
        mlp_norm=layer.post_attention_layernorm.weight,
    )
