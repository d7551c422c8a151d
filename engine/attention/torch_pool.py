"""Keys and values laid out for products of torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from engine.attention.pool import KVPool, KVShape, untouched


@dataclass(frozen=True, slots=True)
class Slots:
    """Where the keys and values of a step go: one entry per token and kv head, token first.

    ``rows`` count slots over all heads of all blocks; ``blocks`` and ``places`` are the same as
    heads over all blocks and slot within.
    """

    rows: torch.Tensor
    blocks: torch.Tensor
    places: torch.Tensor


class TorchPool(KVPool):
    """Per layer keys ``[block, kv head, slot, head dim]``, values ``[block, kv head, head dim,
    slot]``.

    A block is contiguous and so is each head within it: attention multiplies blocks where they
    lie, without gathering them. Values lie across, since a product of few rows is faster on a CPU
    (measured: a quarter to a half) when its other side is summed along memory.
    """

    def __init__(self, shape: KVShape, dtype: torch.dtype, device: torch.device) -> None:
        across = (shape.num_blocks, shape.kv_heads, shape.head_dim, shape.block_size)
        along = (shape.num_blocks, shape.kv_heads, shape.block_size, shape.head_dim)
        # Zeros, not empty: a masked slot has weight 0, and 0 times an uninitialised NaN is NaN.
        self.keys = [_zeros(along, dtype, device) for _ in range(shape.layers)]
        self.values = [_zeros(across, dtype, device) for _ in range(shape.layers)]
        super().__init__(shape, (*self.keys, *self.values))

    def write(self, layer: int, slots: Slots, k: torch.Tensor, v: torch.Tensor) -> None:
        """Store ``k`` and ``v``, ``[tokens, kv heads, head dim]``, at ``slots``."""
        size, dim = self.shape.block_size, self.shape.head_dim
        self.keys[layer].view(-1, dim).index_copy_(0, slots.rows, k.reshape(-1, dim))
        values = self.values[layer].view(-1, dim, size)
        values[slots.blocks, :, slots.places] = v.reshape(-1, dim)

    def read(self, layer: int, blocks: torch.Tensor, length: int) -> tuple[torch.Tensor, ...]:
        """Keys and values of one sequence, ``[1, kv heads, length, head dim]`` each."""
        keys = self.keys[layer].index_select(0, blocks)
        values = self.values[layer].index_select(0, blocks).transpose(2, 3)
        return tuple(
            x.transpose(0, 1).reshape(1, self.shape.kv_heads, -1, self.shape.head_dim)[
                :, :, :length
            ]
            for x in (keys, values)
        )


def _zeros(size: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if device.type != "cpu":
        return torch.zeros(size, dtype=dtype, device=device)
    return untouched(math.prod(size) * dtype.itemsize).view(dtype).view(size)
