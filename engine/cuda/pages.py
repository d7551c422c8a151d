"""Keys and values laid out for kernels over pages."""

from __future__ import annotations

import torch

from engine.attention.pool import KVPool, KVShape


class PagePool(KVPool):
    """Per layer keys and values ``[page, slot, kv head, head dim]``.

    One page more than ``shape`` says, the last: rows that only fill a batch up write there.
    """

    def __init__(self, shape: KVShape, dtype: torch.dtype, device: torch.device) -> None:
        size = (shape.num_blocks + 1, shape.block_size, shape.kv_heads, shape.head_dim)
        # Zeros, not empty: a masked slot has weight 0, and 0 times an uninitialised NaN is NaN.
        self.keys = [torch.zeros(size, dtype=dtype, device=device) for _ in range(shape.layers)]
        self.values = [torch.zeros(size, dtype=dtype, device=device) for _ in range(shape.layers)]
        super().__init__(shape, (*self.keys, *self.values))

    def write(self, layer: int, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        """Store ``k`` and ``v``, ``[tokens, kv heads, head dim]``, at ``slots``: int64
        ``[tokens]``, counted over all pages."""
        self.keys[layer].flatten(0, 1).index_copy_(0, slots, k)
        self.values[layer].flatten(0, 1).index_copy_(0, slots, v)
