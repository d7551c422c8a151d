"""Keys and values of every running sequence, in blocks: the tensors behind the block tables."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class KVShape:
    """Geometry of the cache. ``block_size`` counts tokens; on a CPU, take 32 (measured)."""

    layers: int
    kv_heads: int
    head_dim: int
    num_blocks: int
    block_size: int

    def __post_init__(self) -> None:
        for name in ("layers", "kv_heads", "head_dim", "num_blocks", "block_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"kv.{name} must be >= 1, got {getattr(self, name)}")

    def nbytes(self, dtype: torch.dtype) -> int:
        """Bytes that keys and values of all layers take."""
        tokens = self.num_blocks * self.block_size
        return 2 * self.layers * tokens * self.kv_heads * self.head_dim * dtype.itemsize


@dataclass(frozen=True, slots=True)
class Slots:
    """Where the keys and values of a step go: one entry per token and kv head, token first.

    ``rows`` count slots over all heads of all blocks; ``blocks`` and ``places`` are the same as
    heads over all blocks and slot within.
    """

    rows: torch.Tensor
    blocks: torch.Tensor
    places: torch.Tensor


class KVPool:
    """Per layer keys ``[block, kv head, slot, head dim]``, values ``[block, kv head, head dim,
    slot]``.

    A block is contiguous and so is each head within it: attention multiplies blocks where they
    lie, without gathering them. Values lie across, since a product of few rows is faster on a CPU
    (measured: a quarter to a half) when its other side is summed along memory.
    """

    def __init__(self, shape: KVShape, dtype: torch.dtype, device: torch.device) -> None:
        self.shape = shape
        across = (shape.num_blocks, shape.kv_heads, shape.head_dim, shape.block_size)
        along = (shape.num_blocks, shape.kv_heads, shape.block_size, shape.head_dim)
        # Zeros, not empty: a masked slot has weight 0, and 0 times an uninitialised NaN is NaN.
        self.keys = [torch.zeros(along, dtype=dtype, device=device) for _ in range(shape.layers)]
        self.values = [torch.zeros(across, dtype=dtype, device=device) for _ in range(shape.layers)]

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

    def broken(self, blocks: torch.Tensor) -> torch.Tensor:
        """Those of ``blocks`` that hold a number which is not finite."""
        broken = torch.zeros(len(blocks), dtype=torch.bool, device=blocks.device)
        for pool in (*self.keys, *self.values):
            broken |= ~pool.index_select(0, blocks).flatten(1).isfinite().all(1)
        return blocks[broken]

    def wipe(self, blocks: torch.Tensor) -> None:
        """Zero ``blocks``. A NaN left behind would reach the next owner through masked slots."""
        for pool in (*self.keys, *self.values):
            pool[blocks] = 0

    def copy(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        """Make ``targets`` hold what ``sources`` hold, block by block."""
        for pool in (*self.keys, *self.values):
            pool.index_copy_(0, targets, pool.index_select(0, sources))

    def lift(self, blocks: torch.Tensor) -> torch.Tensor:
        """A copy of ``blocks``, ``[blocks, 2 · layers, elements]``: all layers of one together."""
        parts = [pool.index_select(0, blocks).flatten(1) for pool in (*self.keys, *self.values)]
        return torch.stack(parts, 1)

    def lay(self, blocks: torch.Tensor, content: torch.Tensor) -> None:
        """Put back into ``blocks`` what :meth:`lift` gave."""
        for part, pool in enumerate((*self.keys, *self.values)):
            pool.index_copy_(0, blocks, content[:, part].view(-1, *pool.shape[1:]))
