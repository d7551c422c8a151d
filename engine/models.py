"""A causal language model with its tokenizer, checked to be one that the engine runs correctly."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, AutoTokenizer

from engine import architecture, chat, probe
from engine.attention.interface import NAME, Backend, paged_attention
from engine.attention.pool import KVShape
from engine.devices import check_room, resolve_device, resolve_dtype
from engine.fastest import fastest
from engine.forward import Forward
from engine.gguf_source import quiet
from engine.native.library import Native
from engine.probe import Geometry

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Model:
    """``context_length`` counts tokens of prompt and output together.

    ``config``: of the language model alone, where the model is more than that.
    """

    name: str
    forward: Forward = field(repr=False)
    attention: Backend = field(repr=False)
    tokenizer: Any = field(repr=False)
    config: Any = field(repr=False)
    geometry: Geometry
    context_length: int
    eos: frozenset[int]
    device: torch.device
    dtype: torch.dtype

    def encode(self, prompt: str) -> list[int]:
        """Tokens of ``prompt``, with what the tokenizer puts around a text."""
        return list(self.tokenizer(prompt)["input_ids"])

    def encode_chat(self, turns: Sequence[tuple[str, str]], **template: Any) -> list[int]:
        """Tokens of ``(role, content)`` turns under the model's chat template, ready to answer.

        ``template``: as :func:`engine.chat.render` takes it.
        Raises ``ValueError`` when the template refuses them or there is none.
        """
        text = chat.render(self.tokenizer, turns, **template)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def kv_shape(self, num_blocks: int, block_size: int) -> KVShape:
        """Geometry of a cache for this model."""
        return kv_shape(self.geometry, num_blocks, block_size)


def kv_shape(geometry: Geometry, num_blocks: int, block_size: int) -> KVShape:
    """A cache of ``num_blocks`` blocks of ``block_size`` tokens for attention of ``geometry``."""
    return KVShape(geometry.layers, geometry.kv_heads, geometry.head_dim, num_blocks, block_size)


def load(
    folder: str | Path,
    *,
    name: str = "",
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    max_model_len: int = 0,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    native: Native | None = None,
) -> Model:
    """Load, check and speed up the model in ``folder`` (:mod:`engine.sources` finds others).

    ``device`` auto: CUDA where there is one. ``dtype`` auto: bfloat16 where the hardware
    multiplies it, else float16 on CUDA and float32 on a CPU. ``max_model_len`` lowers the context
    length; 0: the model's own. ``native``: compiled kernels, for speed on a CPU. The rest as
    :class:`engine.sources.ModelSource` has it.

    Raises ``ValueError`` when the engine cannot run its architecture correctly, or it doesn't fit
    the device; the message says what is in the way.
    """
    folder = Path(folder)
    device = resolve_device(device)
    dtype = resolve_dtype(dtype, device)
    config, tokenizer = _described(folder, trust_remote_code)
    architecture.check_config(config)
    architecture.positions(config, max_model_len)
    AttentionInterface.register(NAME, paged_attention)
    try:
        with quiet():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                output_loading_info=True,
                config=config,
                dtype=dtype,
                attn_implementation=NAME,
                use_safetensors=None if allow_pickle else True,
                trust_remote_code=trust_remote_code,
                local_files_only=True,
            )
    except Exception as error:  # of many types, and of the libraries of weight formats
        raise ValueError(
            f"model: transformers cannot load the weights of {folder} as a causal language model "
            f"({type(error).__name__}: {_first_line(error)})"
        ) from error
    network, found = loaded
    if missing := sorted(found["missing_keys"]):
        # Transformers would make them up at random.
        raise ValueError(
            f"model: {folder} lacks {len(missing)} of the weights that its config.json asks for, "
            f"{missing[0]} among them; get it again"
        )
    return adopt(network, tokenizer, name or folder.name, device, max_model_len, native)


def _described(folder: Path, trust_remote_code: bool) -> tuple[Any, Any]:
    """Configuration and tokenizer. Never asks on the terminal, as transformers would."""
    made: list[Any] = []
    for part, cls in (("config.json", AutoConfig), ("a tokenizer", AutoTokenizer)):
        try:
            made.append(
                cls.from_pretrained(
                    folder, trust_remote_code=trust_remote_code, local_files_only=True
                )
            )
        except Exception as error:  # of many types, and of the tokenizer libraries' own
            if "trust_remote_code" in str(error):
                raise ValueError(
                    f"model: {folder} is run by Python code of its own, which is not executed; "
                    "pass --trust-remote-code if you have read it"
                ) from None
            raise ValueError(
                f"model: cannot load {str(folder)!r}; give a folder with config.json and a "
                f"tokenizer: {part} cannot be read ({type(error).__name__}: {_first_line(error)})"
            ) from error
    return made[0], made[1]


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]


def adopt(
    network: Any,
    tokenizer: Any,
    name: str,
    device: torch.device,
    max_model_len: int = 0,
    native: Native | None = None,
) -> Model:
    """A network of transformers that is in memory, moved to ``device`` and made ready to serve.

    Changes ``network``, which is of no further use to the caller. Raises as :func:`load`.
    """
    architecture.check_config(network.config)
    context_length, reason = architecture.positions(network.config, max_model_len)
    if reason:
        log.warning("the context is limited to %d positions: %s", context_length, reason)
    AttentionInterface.register(NAME, paged_attention)
    check_room(network, device)
    network = network.to(device).eval().requires_grad_(False)
    network.config.use_cache = False
    geometry = _geometry(network)
    way = fastest(network, geometry, native)
    return Model(
        name=name,
        forward=way.forward,
        attention=way.attention,
        tokenizer=tokenizer,
        config=architecture.text_config(network.config),
        geometry=geometry,
        context_length=context_length,
        eos=_eos(network, tokenizer),
        device=device,
        dtype=network.dtype,
    )


def _geometry(network: Any) -> Geometry:
    try:
        return probe.probe(network)
    except Exception as error:
        known = isinstance(error, probe.NotServed)
        raise ValueError(
            f"model: {network.config.model_type} cannot be served: "
            + (str(error) if known else f"{type(error).__name__}: {_first_line(error)}")
        ) from error


def _eos(network: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end an answer: of the generation config, the model and the tokenizer."""
    generation = getattr(network, "generation_config", None)
    ends: set[int] = set()
    for source in (generation, network.config, tokenizer):
        value = getattr(source, "eos_token_id", None)
        if value is not None:
            ends.update(value if isinstance(value, list | tuple | set) else (value,))
    return frozenset(ends)
