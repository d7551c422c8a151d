"""The pool of fixed-size KV blocks. Who holds which block is written in exactly one place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class BlockPool:
    """``num_blocks`` blocks of ``block_size`` tokens each, numbered from 0.

    A block is either free or held once. Freed blocks are handed out again last in, first out:
    the newest freed is the likeliest to sit in a cache. Paged KV memory as in vLLM (Kwon et al.
    2023, arXiv 2309.06180, section 4), without sharing.

    Raises ``ValueError`` when a size is below 1.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        if num_blocks < 1:
            raise ValueError(f"num_blocks must be at least 1, got {num_blocks}")
        if block_size < 1:
            raise ValueError(f"block_size must be at least 1 token, got {block_size}")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._free = list(range(num_blocks - 1, -1, -1))
        self._held = bytearray(num_blocks)

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Blocks that somebody holds."""
        return self.num_blocks - len(self._free)

    @property
    def capacity(self) -> int:
        """Tokens that fit when one request holds every block."""
        return self.num_blocks * self.block_size

    def blocks_for(self, tokens: int) -> int:
        """Blocks that ``tokens`` tokens take."""
        return -(-tokens // self.block_size)

    def allocate(self, count: int) -> list[int]:
        """Take ``count`` blocks. Raises ``ValueError`` when fewer are free: ask ``free`` first."""
        if not 0 <= count <= len(self._free):
            raise ValueError(f"cannot allocate {count} blocks: {len(self._free)} are free")
        if count == 0:
            return []
        taken = self._free[: -count - 1 : -1]
        del self._free[-count:]
        for block in taken:
            self._held[block] = 1
        return taken

    def release(self, blocks: Iterable[int]) -> None:
        """Give blocks back. Raises ``ValueError`` on a block that is not held (a double free)."""
        for block in blocks:
            if not 0 <= block < self.num_blocks or not self._held[block]:
                raise ValueError(f"block {block} is not held, so it cannot be freed")
            self._held[block] = 0
            self._free.append(block)

    def check_integrity(self, tables: Iterable[Sequence[int]] = ()) -> None:
        """Raise ``RuntimeError`` unless free and held partition the pool.

        ``tables`` are all block tables in use: together they must hold each held block once.
        """
        if len(set(self._free)) != len(self._free):
            raise RuntimeError("a block is free twice")
        if any(self._held[block] for block in self._free):
            raise RuntimeError("a block is free and held at once")
        if sum(self._held) + len(self._free) != self.num_blocks:
            raise RuntimeError("a block is neither free nor held")
        owned = [block for table in tables for block in table]
        if len(set(owned)) != len(owned):
            raise RuntimeError("a block has two owners")
        if owned and any(not self._held[block] for block in owned):
            raise RuntimeError("a block table names a free block")
        if len(owned) != self.used:
            raise RuntimeError(f"{self.used} blocks are held but {len(owned)} are owned")
