"""Blocks that were swapped out: room for keys and values in the machine's own memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import torch

from engine.attention.pool import KVPool
from engine.core.plan import Move
from engine.cuda.crossing import Crossing
from engine.placed import placed

#: Bytes of a slab. Pinned memory is handed out in powers of two; one tensor for all of it could
#: take twice what was asked for.
_SLAB = 1 << 28


class Way(Protocol):
    """How blocks get to the host and back."""

    @property
    def together(self) -> int:
        """Blocks that are moved at once."""
        ...

    def out(self, content: torch.Tensor, targets: Sequence[torch.Tensor]) -> None:
        """Copy ``content [n, *block]`` to n blocks of the host."""
        ...

    def back(self, sources: Sequence[torch.Tensor], lay: Callable[[torch.Tensor], None]) -> None:
        """Hand n blocks of the host, ``[n, *block]``, to ``lay``."""
        ...


class Beside:
    """The way where the device is the host."""

    together = 8

    def out(self, content: torch.Tensor, targets: Sequence[torch.Tensor]) -> None:
        for row, target in zip(content, targets, strict=True):
            target.copy_(row)

    def back(self, sources: Sequence[torch.Tensor], lay: Callable[[torch.Tensor], None]) -> None:
        lay(torch.stack(list(sources)))


class HostPool:
    """Room for ``num_blocks`` blocks of ``pool``; pinned beside a GPU, so that copies run beside
    the steps.

    A block of the device may be written anew as soon as :meth:`take_in` returns, and one that
    :meth:`give_back` brought may be read: work of the device that follows waits where it must.
    """

    def __init__(self, pool: KVPool, num_blocks: int) -> None:
        if num_blocks < 0:
            raise ValueError(f"num_blocks must be >= 0, got {num_blocks}")
        self._pool = pool
        block, dtype, device = pool.block, pool.dtype, pool.device
        self._device = device
        self._way: Way = Beside()
        if device.type == "cuda" and num_blocks:
            self._way = Crossing(device, dtype, block, num_blocks)
        bytes_each = block[0] * block[1] * dtype.itemsize
        self._per_slab = max(1, _SLAB // bytes_each)
        self._slabs = [
            torch.empty(
                (min(self._per_slab, num_blocks - first), *block),
                dtype=dtype,
                pin_memory=device.type == "cuda",
            )
            for first in range(0, num_blocks, self._per_slab)
        ]

    def take_in(self, moves: Sequence[Move]) -> None:
        """Copy blocks of the device (``source``) to blocks here (``target``)."""
        for part in self._parts(moves):
            content = self._pool.lift(self._on_device([move.source for move in part]))
            self._way.out(content, [self._at(move.target) for move in part])

    def give_back(self, moves: Sequence[Move]) -> None:
        """Copy blocks here (``source``) to blocks of the device (``target``)."""
        for part in self._parts(moves):
            lay = partial(self._pool.lay, self._on_device([move.target for move in part]))
            self._way.back([self._at(move.source) for move in part], lay)

    def _at(self, block: int) -> torch.Tensor:
        slab, row = divmod(block, self._per_slab)
        return self._slabs[slab][row]

    def _on_device(self, blocks: list[int]) -> torch.Tensor:
        return placed(blocks, self._device)

    def _parts(self, moves: Sequence[Move]) -> list[Sequence[Move]]:
        size = self._way.together
        return [moves[i : i + size] for i in range(0, len(moves), size)]
