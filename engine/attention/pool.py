"""Keys and values of every running sequence, in blocks: the tensors behind the block tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
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


def untouched(nbytes: int) -> torch.Tensor:
    """Zeros on the CPU, ``[nbytes]`` of uint8, that take memory and time when they are first used.

    Numpy asks the system for memory that is zero already; ``torch.zeros`` writes all of it, a
    second for half a GiB.
    """
    return torch.from_numpy(np.zeros(nbytes, dtype=np.uint8))


class KVPool:
    """``parts``: tensors whose first dimension counts blocks, as large as each other.

    Backends lay out the parts; what moves whole blocks is the same for all of them.
    """

    def __init__(self, shape: KVShape, parts: Sequence[torch.Tensor]) -> None:
        self.shape = shape
        self.parts = tuple(parts)

    @property
    def device(self) -> torch.device:
        return self.parts[0].device

    @property
    def dtype(self) -> torch.dtype:
        return self.parts[0].dtype

    @property
    def block(self) -> tuple[int, int]:
        """A block as :meth:`lift` gives it: ``(parts, elements of each)``."""
        return len(self.parts), self.parts[0][0].numel()

    def broken(self, blocks: torch.Tensor) -> torch.Tensor:
        """Those of ``blocks`` that hold a number which is not finite."""
        broken = torch.zeros(len(blocks), dtype=torch.bool, device=blocks.device)
        for pool in self.parts:
            broken |= ~pool.index_select(0, blocks).flatten(1).isfinite().all(1)
        return blocks[broken]

    def wipe(self, blocks: torch.Tensor) -> None:
        """Zero ``blocks``. A NaN left behind would reach the next owner through masked slots."""
        for pool in self.parts:
            pool[blocks] = 0

    def copy(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        """Make ``targets`` hold what ``sources`` hold, block by block."""
        for pool in self.parts:
            pool.index_copy_(0, targets, pool.index_select(0, sources))

    def lift(self, blocks: torch.Tensor) -> torch.Tensor:
        """A copy of ``blocks``, ``[blocks, parts, elements]``: all layers of one together."""
        parts = [pool.index_select(0, blocks).flatten(1) for pool in self.parts]
        return torch.stack(parts, 1)

    def lay(self, blocks: torch.Tensor, content: torch.Tensor) -> None:
        """Put back into ``blocks`` what :meth:`lift` gave."""
        for part, pool in enumerate(self.parts):
            pool.index_copy_(0, blocks, content[:, part].view(-1, *pool.shape[1:]))
