"""A causal language model with its tokenizer, checked to be one that the engine runs correctly."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, AutoTokenizer

from engine import linear, llama
from engine.attention.choose import choose
from engine.attention.interface import NAME, Backend, paged_attention
from engine.attention.pool import KVShape
from engine.bundled import BUNDLED, prepare_bundled, quiet
from engine.devices import resolve_device, resolve_dtype
from engine.forward import Forward, Transformers
from engine.selftest import check_network, matches

__all__ = ["BUNDLED", "Model", "load", "prepare", "prepare_bundled"]

log = logging.getLogger(__name__)

#: Rotary embeddings whose angles depend on the longest position of the batch: a packed row of
#: many requests would mix them up.
_UNSUPPORTED_ROPE = ("dynamic", "longrope")


@dataclass(frozen=True, slots=True)
class Model:
    """``context_length`` counts tokens of prompt and output together."""

    name: str
    forward: Forward = field(repr=False)
    attention: Backend = field(repr=False)
    tokenizer: Any = field(repr=False)
    config: Any = field(repr=False)
    context_length: int
    eos: frozenset[int]
    device: torch.device
    dtype: torch.dtype
    packed_linears: int

    def encode(self, prompt: str) -> list[int]:
        """Tokens of ``prompt``, with what the tokenizer puts around a text."""
        return list(self.tokenizer(prompt)["input_ids"])

    def encode_chat(self, turns: Sequence[tuple[str, str]]) -> list[int]:
        """Tokens of ``(role, content)`` turns under the model's chat template, ready to answer.

        Raises ``ValueError`` when the template refuses them or there is none.
        """
        if not self.tokenizer.chat_template:
            raise ValueError("this model has no chat template; send a prompt instead")
        messages = [{"role": role, "content": content} for role, content in turns]
        try:
            text = self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:
            # Templates raise jinja2 errors of their own wording, which may quote the messages.
            raise ValueError(
                f"the model's chat template refuses these messages ({type(error).__name__})"
            ) from None
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of tokens, special ones left out."""
        text: str = self.tokenizer.decode(
            list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def kv_shape(self, num_blocks: int, block_size: int) -> KVShape:
        """Geometry of a cache for this model."""
        heads = self.config.num_attention_heads
        return KVShape(
            layers=self.config.num_hidden_layers,
            kv_heads=getattr(self.config, "num_key_value_heads", None) or heads,
            head_dim=getattr(self.config, "head_dim", None) or self.config.hidden_size // heads,
            num_blocks=num_blocks,
            block_size=block_size,
        )


def prepare(model: str, cache_dir: Path) -> tuple[str, str]:
    """What ``model`` stands for as ``(name to serve it under, path or hub id for load)``.

    The bundled model's name converts it at first use; a folder is served under its last part.
    """
    if model == BUNDLED:
        return BUNDLED, str(prepare_bundled(cache_dir))
    return (Path(model).resolve().name if Path(model).is_dir() else model), model


def load(
    path_or_hub_id: str | Path,
    *,
    name: str | None = None,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
) -> Model:
    """Load, check and speed up a model.

    ``device`` auto: CUDA where there is one. ``dtype`` auto: bfloat16 where the hardware
    multiplies it, else float16 on CUDA and float32 on a CPU.

    Raises ``ValueError`` when there is no such model, or the engine cannot run its architecture
    correctly; the message says what is in the way.
    """
    source = str(path_or_hub_id)
    device = resolve_device(device)
    dtype = resolve_dtype(dtype, device)
    try:
        config = AutoConfig.from_pretrained(source)
        tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"model: cannot load {source!r}; give a folder with config.json and a tokenizer, or "
            f"the id of a model on the hub ({type(error).__name__})"
        ) from error
    check_config(config)
    AttentionInterface.register(NAME, paged_attention)
    with quiet():
        network = AutoModelForCausalLM.from_pretrained(
            source, dtype=dtype, attn_implementation=NAME
        )
    return adopt(network, tokenizer, name or Path(source).name, device)


def adopt(network: Any, tokenizer: Any, name: str, device: torch.device) -> Model:
    """A network of transformers that is in memory, moved to ``device`` and made ready to serve.

    Changes ``network``, which is of no further use to the caller. Raises as :func:`load`.
    """
    check_config(network.config)
    AttentionInterface.register(NAME, paged_attention)
    network = network.to(device).eval().requires_grad_(False)
    network.config.use_cache = False
    backend = choose(device, network.dtype)
    expected = check_network(network, backend)
    network.set_attn_implementation(NAME)
    config, dtype = network.config, network.dtype
    pack = device.type == "cpu" and linear.supported(dtype)
    forward, packed = _fastest(network, backend, expected, pack)
    return Model(
        name=name,
        forward=forward,
        attention=backend,
        tokenizer=tokenizer,
        config=config,
        context_length=config.max_position_embeddings,
        eos=_eos(network, tokenizer),
        device=device,
        dtype=dtype,
        packed_linears=packed,
    )


def _fastest(
    network: Any, backend: Backend, expected: torch.Tensor, pack: bool
) -> tuple[Forward, int]:
    """The fastest forward that gives the ``expected`` logits, and how many linears it packed."""
    if llama.fits(network):
        fast = llama.Llama(network, pack=pack)
        same, error = matches(fast, network, backend, expected)
        if same:
            return fast, fast.linears
        log.warning("the fast forward is off by %.2g; transformers' own is used", error)
    return Transformers(network), linear.pack(network) if pack else 0


def check_config(config: Any) -> None:
    """Raise ``ValueError`` when ``config`` asks for what the paged attention does not compute."""
    kind = config.model_type
    layers = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if layers:
        raise ValueError(f"model: {kind} has {', '.join(sorted(layers))} layers, not supported yet")
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        raise ValueError(f"model: {kind} uses a sliding window, which is not supported yet")
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") in _UNSUPPORTED_ROPE:
        raise ValueError(f"model: rope type {rope['rope_type']!r} is not supported")
    if not getattr(config, "max_position_embeddings", None):
        raise ValueError(f"model: {kind} does not say how many positions it takes")


def _eos(network: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end an answer: of the generation config, the model and the tokenizer."""
    generation = getattr(network, "generation_config", None)
    ends: set[int] = set()
    for source in (generation, network.config, tokenizer):
        value = getattr(source, "eos_token_id", None)
        if value is not None:
            ends.update(value if isinstance(value, list | tuple | set) else (value,))
    return frozenset(ends)
