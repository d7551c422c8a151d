"""Blocks on their way to the host and back, beside the steps that run meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

#: Bytes that cross at once; as much of the device's memory is taken twice.
_AT_ONCE = 1 << 26


class Crossing:
    """A stream for copies over the bus, and two rooms on the device that they go by.

    Blocks are gathered into a room, and spread from one, on the stream of the steps: within the
    device that is quick, and a block can be written anew at once. The slow way between room and
    host takes the stream of its own, which also keeps the copies in order: what was brought to a
    host block is there before it is fetched, and fetched before it is overwritten. No call waits.
    """

    def __init__(
        self, device: torch.device, dtype: torch.dtype, block: tuple[int, int], most: int
    ) -> None:
        """``block`` as :attr:`engine.attention.pool.KVPool.block`; at most ``most`` are moved."""
        bytes_each = block[0] * block[1] * dtype.itemsize
        #: Blocks that cross at once.
        self.together = max(1, min(_AT_ONCE // bytes_each, most))
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        size = (self.together, *block)
        self._rooms = [torch.empty(size, dtype=dtype, device=device) for _ in range(2)]
        #: When the last copy that used a room was over.
        self._left = [torch.cuda.Event() for _ in range(2)]  # type: ignore[no-untyped-call]
        self._next = 0

    def out(self, content: torch.Tensor, targets: Sequence[torch.Tensor]) -> None:
        """Copy ``content [n, *block]``, n <= ``together``, to n blocks of pinned host memory."""
        here = torch.cuda.current_stream(self._device)
        room, left = self._room(len(targets))
        left.wait(here)
        room.copy_(content)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            for row, target in zip(room, targets, strict=True):
                target.copy_(row, non_blocking=True)
            left.record(self._stream)

    def back(self, sources: Sequence[torch.Tensor], lay: Callable[[torch.Tensor], None]) -> None:
        """Copy n blocks of pinned host memory to the device, n <= ``together``; ``lay`` takes
        them, ``[n, *block]``, on the stream of the steps."""
        here = torch.cuda.current_stream(self._device)
        room, left = self._room(len(sources))
        left.wait(self._stream)
        with torch.cuda.stream(self._stream):
            for row, source in zip(room, sources, strict=True):
                row.copy_(source, non_blocking=True)
        here.wait_stream(self._stream)
        lay(room)
        left.record(here)

    def _room(self, count: int) -> tuple[torch.Tensor, torch.cuda.Event]:
        """``count`` places, and the event that whoever writes them first must wait for."""
        here = self._next
        self._next = 1 - here
        return self._rooms[here][:count], self._left[here]
