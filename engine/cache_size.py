"""How many blocks of keys and values there is memory for, and how large they are."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.cuda import memory
from engine.cuda.buckets import Buckets
from engine.devices import free_memory
from engine.models import Model

#: Tokens of a block where the backend has no page of its own; on a CPU, measured.
_BLOCK = 32
#: The KV cache of a CPU when the operator names no size.
_CPU_GIB = 0.5


def block_size(model: Model, asked: int = 0) -> int:
    """``asked``, or what the attention of ``model`` reads best. Raises ``ValueError``."""
    page = model.attention.page
    if asked % page:
        raise ValueError(
            f"block_size must be a multiple of {page} for this model's attention, got {asked}"
        )
    return asked or max(_BLOCK, page)


def host_blocks(model: Model, size: int, swap_gib: float) -> int:
    """Blocks of ``size`` tokens that ``swap_gib`` of the host hold."""
    return int(swap_gib * 2**30 // model.kv_shape(1, size).nbytes(model.dtype))


@dataclass(frozen=True, slots=True)
class Space:
    """``kv_gib``: of the cache; 0: half a GiB of a CPU, or what is left of ``share`` of a GPU.
    ``swap_gib``: of the host, for what is swapped out."""

    kv_gib: float = 0.0
    share: float = 0.9
    swap_gib: float = 0.0


def blocks(
    model: Model, size: int, space: Space, max_num_seqs: int, max_num_batched_tokens: int
) -> tuple[int, int]:
    """Blocks of ``size`` tokens that fit ``space``: of the cache, but no more than requests of full
    length could use, and of the host.

    Runs the largest step once on a GPU. Raises ``ValueError`` naming what to change.
    """
    kv_gib, name = space.kv_gib, "kv_gib"
    if kv_gib:
        given, free = kv_gib * 2**30, free_memory(model.device)
        if free is not None and given > free:
            raise ValueError(
                f"kv_gib: {kv_gib} is more than the {free / 2**30:.1f} GiB that {model.device} has "
                "left beside the model"
            )
    elif model.device.type == "cuda":
        found = memory.measure(model, max_num_seqs, max_num_batched_tokens, size)
        given, name = found.for_cache(space.share), "gpu_memory_utilization"
    else:
        given = _CPU_GIB * 2**30
    block = model.kv_shape(1, size).nbytes(model.dtype)
    # A backend may keep a page of its own beside them.
    count = int(given // block) - (model.device.type == "cuda")
    if count < 1:
        raise ValueError(
            f"{name}: it leaves {max(0.0, given) / 2**30:.4f} GiB for the KV cache, less than one "
            f"block of {block / 2**30:.4f} GiB"
        )
    # More than every slot at full context can never be used.
    most = max_num_seqs * math.ceil(model.context_length / size) + 1
    return min(count, most), host_blocks(model, size, space.swap_gib)


def buckets(
    model: Model, max_num_seqs: int, size: int, num_blocks: int, drafts: int = 0
) -> Buckets:
    """Every size of decode step of such an engine, for its graphs; with as many ``drafts`` a
    request at most."""
    pages = min(num_blocks, math.ceil(model.context_length / size))
    return Buckets.upto(max_num_seqs, pages, drafts)
