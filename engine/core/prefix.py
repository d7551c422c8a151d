"""Which block holds which prefix, and which block is evicted next."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence


class PrefixIndex:
    """Full blocks by the chained hash of their prefix, held or not.

    A hash names the tokens of its block and of all before it (``Request.block_hashes``), so equal
    hashes mean equal keys and values: automatic prefix caching as in vLLM. A hash has one block and
    a block one hash.

    Blocks that nobody holds stay until their memory is needed, least recently used first, in two
    tiers: those whose hash a waiting request wants (:meth:`want`) go last, because evicting them
    buys a recomputation that is already in the queue. The owner retires a request's blocks from the
    tail on, so a block never goes before those that only make sense behind it.
    """

    def __init__(self) -> None:
        self.evicted = 0  #: blocks evicted so far
        self._block_of: dict[int, int] = {}
        self._hash_of: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # unheld, oldest first
        self._wanted: OrderedDict[int, None] = OrderedDict()  # the same, and somebody wants it
        self._wants: dict[int, int] = {}  # hash -> waiting requests that want it

    def __len__(self) -> int:
        """Blocks in the index, held or not."""
        return len(self._block_of)

    def block(self, key: int) -> int | None:
        """The block of that prefix."""
        return self._block_of.get(key)

    def key(self, block: int) -> int | None:
        """The prefix of that block."""
        return self._hash_of.get(block)

    @property
    def unheld(self) -> int:
        """Blocks that nobody holds: each can be evicted."""
        return len(self._idle) + len(self._wanted)

    def find(self, hashes: Sequence[int], limit: int) -> list[int]:
        """Blocks of the longest known prefix of the first ``limit`` hashes."""
        block_of = self._block_of
        found: list[int] = []
        if block_of:
            for position in range(min(limit, len(hashes))):
                block = block_of.get(hashes[position])
                if block is None:
                    break
                found.append(block)
        return found

    def add(self, keys: Iterable[int], blocks: Iterable[int]) -> tuple[int, ...]:
        """Enter held blocks, each with its prefix; the blocks that stand for those now.

        That is another one where the prefix was known already. Raises ``ValueError`` when a block
        stands for another prefix.
        """
        block_of, hash_of = self._block_of, self._hash_of
        known: list[int] = []
        for key, block in zip(keys, blocks, strict=True):
            found = block_of.setdefault(key, block)
            known.append(found)
            if found == block and hash_of.setdefault(block, key) != key:
                del block_of[key]
                raise ValueError(
                    f"block {block} holds prefix {hash_of[block]} and cannot hold {key} as well"
                )
        return tuple(known)

    def discard(self, block: int) -> None:
        """Forget a held block's prefix, because its content is about to be written."""
        key = self._hash_of.pop(block, None)
        if key is not None:
            del self._block_of[key]

    def retire(self, blocks: Iterable[int]) -> list[int]:
        """Nobody holds these any more. Those without a prefix, which are plainly free."""
        hash_of, wants, idle, wanted = self._hash_of, self._wants, self._idle, self._wanted
        plain: list[int] = []
        for block in blocks:
            key = hash_of.get(block)
            if key is None:
                plain.append(block)
            elif key in wants:
                wanted[block] = None
            else:
                idle[block] = None
        return plain

    def revive(self, block: int) -> None:
        """An unheld block is held again."""
        if block in self._idle:
            del self._idle[block]
        else:
            del self._wanted[block]

    def evict(self) -> int:
        """Take the next unheld block out of the index. ``KeyError`` when there is none."""
        block, _ = (self._idle or self._wanted).popitem(last=False)
        del self._block_of[self._hash_of.pop(block)]
        self.evicted += 1
        return block

    def want(self, hashes: Sequence[int]) -> None:
        """A waiting request will look these up."""
        wants = self._wants
        for key in reversed(hashes):  # the tail first, as everywhere: it is to be evicted first
            wants[key] = wants.get(key, 0) + 1
            block = self._block_of.get(key)
            if block is None:
                continue
            if block in self._wanted:
                self._wanted.move_to_end(block)
            elif block in self._idle:
                del self._idle[block]
                self._wanted[block] = None

    def unwant(self, hashes: Sequence[int]) -> None:
        """It no longer waits. Takes back one :meth:`want` of the same hashes."""
        wants = self._wants
        for key in reversed(hashes):
            if wants[key] > 1:
                wants[key] -= 1
                continue
            del wants[key]
            block = self._block_of.get(key)
            if block is not None and block in self._wanted:
                del self._wanted[block]
                self._idle[block] = None

    def check_integrity(self, refs: Sequence[int]) -> None:
        """Raise ``RuntimeError`` unless index and tiers agree with ``refs``, holders per block."""
        if self._hash_of != {block: key for key, block in self._block_of.items()}:
            raise RuntimeError("a prefix and its block do not name each other")
        unheld = {block for block in self._hash_of if not refs[block]}
        wanted = {block for block in unheld if self._hash_of[block] in self._wants}
        if set(self._wanted) != wanted or set(self._idle) != unheld - wanted:
            raise RuntimeError("a block is in the wrong tier of eviction")

    def check_wants(self, hashes: Iterable[Sequence[int]]) -> None:
        """Raise ``RuntimeError`` unless exactly these are wanted."""
        if self._wants != Counter(key for keys in hashes for key in keys):
            raise RuntimeError("prefixes are wanted that nobody waits for, or the reverse")
