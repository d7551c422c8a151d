"""What the attention of a network asks for, layer by layer, found by running it once.

Configurations name these things differently per family, and say them of layers that don't do
them. A run of a few tokens through an attention function that only looks tells the truth.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from engine.architecture import WRITTEN_OUT, text_config
from engine.attention.interface import Current

#: The name under which networks are looked at. Unlike the engine's own, masks are made for it.
_NAME = "shortfirst_probe"
#: Tokens that are run, and the window that the configuration claims meanwhile.
_TOKENS, _WINDOW = 5, 3
_WINDOWS = ("sliding_window", "attention_chunk_size")


@dataclass(frozen=True, slots=True)
class Geometry:
    """Attention of all layers: their number, heads of keys and values, and the size of a head,
    that of its keys or its values, whichever is larger."""

    layers: int
    kv_heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class _Call:
    layer: int
    kv_heads: int
    dim: int
    value_dim: int
    window: int | None
    mask: torch.Tensor | None


class NotServed(ValueError):
    """The network's attention is not what the engine computes."""


def probe(network: Any) -> Geometry:
    """The geometry of ``network``.

    Raises ``NotServed`` with the reason when its layers differ in shape, when some don't ask for
    an attention function, or when the mask they would get otherwise is another than the causal or
    sliding window that they tell the function.
    """
    calls: list[_Call] = []
    AttentionInterface.register(_NAME, _look)
    AttentionMaskInterface.register(_NAME, eager_mask)
    text = text_config(network.config)
    before = network.config._attn_implementation
    window = getattr(text, "sliding_window", None)
    current = Current.of(network)
    current.step = calls
    try:
        network.set_attn_implementation(_NAME)
        with _claimed(text), torch.inference_mode():
            ids = torch.arange(_TOKENS, device=network.device)[None]
            network(input_ids=ids, position_ids=ids, use_cache=False)
    finally:
        network.set_attn_implementation(before)
        current.step = None
    return _judge(calls, int(text.num_hidden_layers), window)


def _look(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *_: Any,
    sliding_window: int | None = None,
    **__: Any,
) -> tuple[torch.Tensor, None]:
    Current.of(module).step.append(
        _Call(
            layer=int(module.layer_idx),  # type: ignore[arg-type]  # loosely typed by nn.Module
            kv_heads=key.shape[1],
            dim=query.shape[-1],
            value_dim=value.shape[-1],
            window=sliding_window,
            mask=attention_mask,
        )
    )
    return query.new_zeros(*query.shape[:3], value.shape[-1]).transpose(1, 2).contiguous(), None


@contextlib.contextmanager
def _claimed(text: Any) -> Iterator[None]:
    """Windows of the configuration made so small that a few tokens show them in the mask."""
    before = {name: value for name in _WINDOWS if (value := getattr(text, name, None))}
    try:
        for name in before:
            setattr(text, name, _WINDOW)
        yield
    finally:
        for name, value in before.items():
            setattr(text, name, value)


def _judge(calls: list[_Call], layers: int, window: int | None) -> Geometry:
    if not calls:
        raise NotServed(WRITTEN_OUT)
    if sorted(call.layer for call in calls) != list(range(layers)):
        raise NotServed(
            f"{len(calls)} calls of attention in {layers} layers: some keep another state, or run "
            "more than once"
        )
    shapes = {(call.kv_heads, call.dim, call.value_dim) for call in calls}
    if len(shapes) > 1:
        raise NotServed(f"its layers differ in heads or their size: {sorted(shapes)}")
    kv_heads, dim, value_dim = shapes.pop()
    for call in calls:
        # Some modules read the window when they are made, others with every call.
        told = _WINDOW if call.window and call.window in (window, _WINDOW) else call.window
        if not _is_window(call.mask, told):
            raise NotServed(
                f"layer {call.layer} has an attention mask that is neither causal nor the window "
                "it tells its attention function"
            )
    return Geometry(layers, kv_heads, max(dim, value_dim))


def _is_window(mask: torch.Tensor | None, window: int | None) -> bool:
    """Whether ``mask``, added to scores, hides exactly what is later or before the ``window``."""
    if mask is None or mask.shape[-2:] != (_TOKENS, _TOKENS):
        return False
    own = torch.arange(_TOKENS, device=mask.device)[:, None]
    seen = torch.arange(_TOKENS, device=mask.device)
    visible = seen <= own
    if window:
        visible &= seen > own - window
    shown = mask if mask.dtype == torch.bool else mask == 0
    hidden = ~mask if mask.dtype == torch.bool else mask <= -1e4
    return bool((shown == visible).all() and (hidden == ~visible).all())
