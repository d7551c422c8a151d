"""The pool of fixed-size KV blocks. How many hold a block is written in exactly one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from engine.core.prefix import PrefixIndex


class BlockPool:
    """``num_blocks`` blocks of ``block_size`` tokens each, numbered from 0.

    A block is free, held by one or more, or *cached*: held by nobody, but its content is kept until
    its memory is needed. Cached blocks count as free. Plainly free blocks are handed out first,
    last in, first out: the newest freed is the likeliest to sit in a cache. Paged KV memory as in
    vLLM (Kwon et al. 2023, arXiv 2309.06180, section 4). Every operation is O(1) per block.

    Raises ``ValueError`` when a size is below 1.
    """

    def __init__(self, num_blocks: int, block_size: int, prefix_cache: bool = True) -> None:
        if num_blocks < 1:
            raise ValueError(f"num_blocks must be at least 1, got {num_blocks}")
        if block_size < 1:
            raise ValueError(f"block_size must be at least 1 token, got {block_size}")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.prefix_cache = prefix_cache
        self.prefixes = PrefixIndex()
        self._free = list(range(num_blocks - 1, -1, -1))
        self._refs = [0] * num_blocks
        self._shared = 0  # holders beyond each block's first

    @property
    def free(self) -> int:
        """Blocks that nobody holds, cached ones included."""
        return len(self._free) + self.prefixes.unheld

    @property
    def used(self) -> int:
        """Blocks that somebody holds."""
        return self.num_blocks - self.free

    @property
    def capacity(self) -> int:
        """Tokens that fit when one request holds every block."""
        return self.num_blocks * self.block_size

    def blocks_for(self, tokens: int) -> int:
        """Blocks that ``tokens`` tokens take."""
        return -(-tokens // self.block_size)

    def allocate(self, count: int) -> list[int]:
        """Take ``count`` blocks, evicting cached ones when the plainly free do not suffice.

        Raises ``ValueError`` when fewer are free: ask ``free`` first.
        """
        free, refs = self._free, self._refs
        if count == 1 and free:  # the next block of one that grows: by far the most frequent
            block = free.pop()
            refs[block] = 1
            return [block]
        if count < 0 or (count > len(free) and count > self.free):
            raise ValueError(f"cannot allocate {count} blocks: {self.free} are free")
        if count == 0:
            return []
        taken = free[: -count - 1 : -1]
        del free[-count:]
        while len(taken) < count:
            taken.append(self.prefixes.evict())
        for block in taken:
            refs[block] = 1
        return taken

    def hold(self, blocks: Iterable[int]) -> None:
        """One more holds each of ``blocks``, all of them held or cached.

        Raises ``ValueError`` on one that is plainly free.
        """
        refs = self._refs
        for block in blocks:
            if refs[block]:
                self._shared += 1
            elif self.prefixes.key(block) is None:
                raise ValueError(f"block {block} is free: allocate it")
            else:
                self.prefixes.revive(block)
            refs[block] += 1

    def holders(self, block: int) -> int:
        """How many hold ``block``."""
        return self._refs[block]

    def exclusive(self, blocks: Iterable[int], kept: Iterable[int] = ()) -> int:
        """How many of ``blocks`` become free when each is given up, as often as it is named, but
        for those to be ``kept``."""
        refs, counts = self._refs, Counter(blocks)
        for block in kept:
            counts.pop(block, None)
        return sum(refs[block] == count for block, count in counts.items())

    @property
    def shared(self) -> bool:
        """Whether any block has more than one holder."""
        return self._shared > 0

    def release(self, blocks: Iterable[int]) -> None:
        """One holder of each gives it up. Tails first: the first released is evicted first.

        Raises ``ValueError`` on a block that is not held (a double free).
        """
        refs, size = self._refs, self.num_blocks
        gone: list[int] = []
        for block in blocks:
            if not 0 <= block < size or not refs[block]:
                raise ValueError(f"block {block} is not held, so it cannot be freed")
            refs[block] -= 1
            if refs[block]:
                self._shared -= 1
            else:
                gone.append(block)
        self._free += self.prefixes.retire(gone) if self.prefixes else gone

    def check_integrity(self, held: Iterable[int]) -> None:
        """Raise ``RuntimeError`` unless each block is free, cached, or held as often as counted.

        ``held``: the blocks of every holder, one after another.
        """
        counts = [0] * self.num_blocks
        for block in held:
            counts[block] += 1
        if counts != self._refs:
            block = next(b for b in range(self.num_blocks) if counts[b] != self._refs[b])
            raise RuntimeError(
                f"block {block} has {counts[block]} holders but {self._refs[block]} are counted"
            )
        self.prefixes.check_integrity(self._refs)
        if any(self._refs[block] or self.prefixes.key(block) is not None for block in self._free):
            raise RuntimeError("a block is free and held, or free and cached")
        if len(set(self._free)) != len(self._free):
            raise RuntimeError("a block is free twice")
        if self.free + sum(count > 0 for count in counts) != self.num_blocks:
            raise RuntimeError("a block is neither free nor held")
        if self._shared != sum(max(0, count - 1) for count in counts):
            raise RuntimeError("the count of shared holders is wrong")
