"""What a model's configuration says of it, before its weights are loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

#: Layers whose attention is over all positions or over the newest ones.
_KNOWN_LAYERS = frozenset({"full_attention", "sliding_attention"})

#: Why families from before transformers had attention functions to choose from are refused.
WRITTEN_OUT = "its attention is written out and cannot be replaced by a paged one"


def text_config(config: Any) -> Any:
    """The part of ``config`` that describes the language model."""
    return config.get_text_config(decoder=True)


def check_config(config: Any) -> None:
    """Raise ``ValueError`` naming the reason when the engine cannot run this kind of model."""
    text = text_config(config)
    kind = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        raise ValueError(f"model: {kind} has an encoder; the engine serves decoders alone")
    layers = set(getattr(text, "layer_types", None) or ()) - _KNOWN_LAYERS
    if layers:
        raise ValueError(
            f"model: {kind} has {', '.join(sorted(layers))} layers, whose state is not paged keys "
            "and values; the engine serves models with full or sliding attention only"
        )
    if text is config and not _replaceable(config):
        raise ValueError(f"model: {kind} cannot be served: {WRITTEN_OUT}")


def _replaceable(config: Any) -> bool:
    """Whether the family's module has attention functions to choose from; so it seems for others
    than transformers' own. The name is what they all import it under."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        return True
    module = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)].__module__
    own = module.startswith("transformers.models.")
    return not own or hasattr(sys.modules[module], "ALL_ATTENTION_FUNCTIONS")


def positions(config: Any, limit: int = 0) -> tuple[int, str]:
    """How many tokens one request may have, and why that is less than the model's own, or ``""``.

    ``limit`` lowers it further; 0: no limit. Two rotary embeddings turn all keys by another angle
    once a sequence is longer than the model was first trained for, those already computed as well;
    paged keys stay as they are, so such models are served up to that length.

    Raises ``ValueError`` when the model names no length and no limit is given, or ``limit`` is
    beyond what can be served.
    """
    text = text_config(config)
    longest = getattr(text, "max_position_embeddings", None)
    if not longest:
        if not limit:
            raise ValueError(
                f"model: {config.model_type} does not say how many positions it takes; set "
                "max_model_len"
            )
        longest = limit
    served, reason = int(longest), ""
    for rope in _ropes(text):
        kind = rope.get("rope_type")
        if kind not in ("dynamic", "longrope"):
            continue
        original = rope.get("original_max_position_embeddings") or getattr(
            text, "original_max_position_embeddings", None
        )
        if original and int(original) < served:
            served = int(original)
            reason = f"beyond them its {kind} rotary embedding changes the keys of earlier ones"
    if limit < 0:
        raise ValueError(f"max_model_len must be >= 0, got {limit}")
    if limit > served:
        raise ValueError(
            f"max_model_len: {limit} is beyond the {served} positions that this model is served "
            f"with{'; ' if reason else ''}{reason}"
        )
    return (limit, "") if limit else (served, reason)


def _ropes(text: Any) -> Iterator[Mapping[str, Any]]:
    """Rotary parameters: one set, or one per type of layer."""
    rope = getattr(text, "rope_parameters", None) or {}
    if "rope_type" in rope:
        yield rope
    else:
        yield from (part for part in rope.values() if isinstance(part, Mapping))
