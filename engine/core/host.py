"""Blocks of host memory that victims are swapped to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class HostPool:
    """``num_blocks`` host blocks, numbered from 0. Each is free, held once, or *leaving*.

    A plan swaps out before it swaps in, in whatever order it was decided. So a block that is to be
    read by a swap-in must not take a victim of the same plan: it leaves, and is free only once that
    plan was carried out (:meth:`settle`).
    """

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 0:
            raise ValueError(f"host_blocks must be at least 0, got {num_blocks}")
        self.num_blocks = num_blocks
        self._free = list(range(num_blocks - 1, -1, -1))
        self._leaving: list[int] = []

    @property
    def free(self) -> int:
        return len(self._free)

    def allocate(self, count: int) -> list[int]:
        """Take ``count`` blocks. Raises ``ValueError`` when fewer are free."""
        if not 0 <= count <= len(self._free):
            raise ValueError(f"cannot allocate {count} host blocks: {len(self._free)} are free")
        return [self._free.pop() for _ in range(count)]

    def release(self, blocks: Iterable[int]) -> None:
        """Give blocks back whose content nobody will read."""
        self._free.extend(blocks)

    def leave(self, blocks: Iterable[int]) -> None:
        """Give blocks back that the plan being made reads."""
        self._leaving.extend(blocks)

    def settle(self) -> None:
        """The plan was carried out: what left is free."""
        self._free.extend(self._leaving)
        self._leaving.clear()

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> None:
        """Raise ``RuntimeError`` unless each block is free, leaving or in one of the tables."""
        found = [*self._free, *self._leaving, *(block for table in tables for block in table)]
        if sorted(found) != list(range(self.num_blocks)):
            raise RuntimeError("a host block is lost, or in two places")
