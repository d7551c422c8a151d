"""The fastest way to run a network, of those that give the logits it should."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine import linear, llama
from engine.architecture import text_config
from engine.attention.choose import choose
from engine.attention.interface import NAME, Backend
from engine.attention.native import NativePaged
from engine.forward import Forward, Transformers
from engine.native import families
from engine.native.library import Native
from engine.probe import Geometry
from engine.selftest import check_network, matches

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Way:
    """``forward`` takes the pool and batches of ``attention``."""

    forward: Forward
    attention: Backend


def fastest(network: Any, geometry: Geometry, native: Native | None) -> Way:
    """Tries what is fast first: a program of ``native``, then torch with fewer operators.

    Raises ``ValueError`` when even transformers' own forward is off under paged attention.
    """
    device, dtype = network.device, network.dtype
    attention = choose(device, dtype, native, _heads(network, geometry))
    try:
        expected = check_network(network, attention, geometry)
    except ValueError as error:
        if not isinstance(attention, NativePaged):
            raise
        attention = choose(device, dtype)
        expected = check_network(network, attention, geometry)
        log.warning("the compiled attention fails its check (%s); torch's is used", error)
    network.set_attn_implementation(NAME)
    pack = device.type == "cpu" and linear.supported(dtype)
    for name, make in _candidates(network, attention, pack):
        forward = make()
        same, off = matches(forward, network, attention, geometry, expected)
        if same:
            return Way(forward, attention)
        log.warning("%s is off by %.2g and is not used", name, off)
    own = attention.native if isinstance(attention, NativePaged) else None
    if pack or own:
        linear.pack(network, own)
    return Way(Transformers(network), attention)


def _heads(network: Any, geometry: Geometry) -> tuple[int, int, int]:
    """Query heads, key heads and head dimension, as good as any where layers differ."""
    heads = getattr(text_config(network.config), "num_attention_heads", None)
    if not isinstance(heads, int) or heads % geometry.kv_heads:
        heads = geometry.kv_heads
    return heads, geometry.kv_heads, geometry.head_dim


def _candidates(
    network: Any, attention: Backend, pack: bool
) -> Iterator[tuple[str, Callable[[], Forward]]]:
    if isinstance(attention, NativePaged) and families.fits(network):
        native = attention.native
        yield "the program", lambda: families.compile_network(network, native)
    if llama.fits(network):
        yield "the fast forward", lambda: llama.Llama(network, pack=pack)
