"""Blocks that were swapped out: room for keys and values in the machine's own memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.attention.pool import KVPool
from engine.core.plan import Move

#: Blocks that are moved together: as much of the device's memory is needed beside the pool.
_TOGETHER = 8
#: Bytes of a slab. Pinned memory is handed out in powers of two; one tensor for all of it could
#: take twice what was asked for.
_SLAB = 1 << 28


class HostPool:
    """Room for ``num_blocks`` blocks of ``pool``; pinned beside a GPU, so that copies are fast and
    the step that follows need not wait for the CPU.

    All copies go to the current stream, as the model's own work does: nothing overtakes.
    """

    def __init__(self, pool: KVPool, num_blocks: int) -> None:
        if num_blocks < 0:
            raise ValueError(f"num_blocks must be >= 0, got {num_blocks}")
        self._pool = pool
        self._block = pool.block
        self._device, self._dtype = pool.device, pool.dtype
        bytes_each = self._block[0] * self._block[1] * self._dtype.itemsize
        self._per_slab = max(1, _SLAB // bytes_each)
        self._slabs = [
            torch.empty(
                (min(self._per_slab, num_blocks - first), *self._block),
                dtype=self._dtype,
                pin_memory=self._device.type == "cuda",
            )
            for first in range(0, num_blocks, self._per_slab)
        ]

    def take_in(self, moves: Sequence[Move]) -> None:
        """Copy blocks of the device (``source``) to blocks here (``target``)."""
        for part in _parts(moves):
            content = self._pool.lift(self._on_device([move.source for move in part]))
            for row, move in zip(content, part, strict=True):
                self._at(move.target).copy_(row, non_blocking=True)

    def give_back(self, moves: Sequence[Move]) -> None:
        """Copy blocks here (``source``) to blocks of the device (``target``)."""
        for part in _parts(moves):
            content = torch.empty((len(part), *self._block), dtype=self._dtype, device=self._device)
            for row, move in zip(content, part, strict=True):
                row.copy_(self._at(move.source), non_blocking=True)
            self._pool.lay(self._on_device([move.target for move in part]), content)

    def _at(self, block: int) -> torch.Tensor:
        slab, row = divmod(block, self._per_slab)
        return self._slabs[slab][row]

    def _on_device(self, blocks: list[int]) -> torch.Tensor:
        return torch.tensor(blocks, device=self._device)


def _parts(moves: Sequence[Move]) -> list[Sequence[Move]]:
    return [moves[i : i + _TOGETHER] for i in range(0, len(moves), _TOGETHER)]
