"""Keys and values laid out for the compiled kernels, see ``native/attend_kernels.h``."""

from __future__ import annotations

import ctypes

import torch

from engine.attention.pool import KVPool, KVShape
from engine.native.library import Native

#: Elements behind the last block that kernels may read.
_ROOM = 64


class NativePool(KVPool):
    """Per layer ``[block, kv head, keys and values]``: keys by dimension, values by slot."""

    def __init__(self, shape: KVShape, dtype: torch.dtype, native: Native) -> None:
        pair = 4 // dtype.itemsize
        if shape.head_dim % pair:
            raise ValueError(f"kv.head_dim must be a multiple of {pair}, got {shape.head_dim}")
        slots = -(-shape.block_size // pair) * pair
        block = 2 * shape.kv_heads * shape.head_dim * slots
        parts = []
        for _ in range(shape.layers):
            count = shape.num_blocks * block
            # Zeros: a slot that is not seen has weight 0, and 0 times a NaN is NaN.
            memory = native.memory((count + _ROOM) * dtype.itemsize).view(dtype)
            parts.append(memory[:count].view(shape.num_blocks, block))
        super().__init__(shape, parts)
        #: Addresses of the layers.
        self.layers = (ctypes.c_void_p * shape.layers)(*(part.data_ptr() for part in parts))
