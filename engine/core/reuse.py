"""What requests reuse of what others, or they themselves, have computed: the prefix cache."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.core.blocks import BlockPool
from engine.core.plan import Move
from engine.core.request import Request


class Reuse:
    """The prefix index of a pool, seen through requests and their ``block_hashes``.

    Invariant: a block is written by one request alone, and not while others can find it. Blocks are
    found only once every token of theirs is computed (:meth:`record`).

    Counts since the beginning, in tokens: ``queried``, known tokens of requests when first
    admitted; ``hit``, those of them found; ``resumed``, those found of preempted ones that came
    back. ``copied``: blocks copied on write.
    """

    def __init__(self, pool: BlockPool) -> None:
        self.queried = self.hit = self.resumed = self.copied = 0
        self._pool = pool
        self._size = pool.block_size
        self._recorded: dict[Request, int] = {}  # leading blocks of each that are in the index
        self._wanting: dict[Request, Sequence[int]] = {}
        self._sources: list[int] = []  # held because a planned copy reads them

    # -- finding ---------------------------------------------------------------------------------

    def find(self, request: Request, tokens: int) -> list[int]:
        """Cached blocks of its first ``tokens`` tokens: full ones whose hashes are known."""
        if not request.block_hashes or not self._pool.prefix_cache:
            return []
        return self._pool.prefixes.find(request.block_hashes, tokens // self._size)

    def shareable(self, request: Request) -> list[int]:
        """Cached blocks that it can share as it comes in: those that it will not write."""
        if request.host_blocks:
            return self.find(request, request.computed_tokens)
        return self.find(request, request.total_tokens - 1)

    def held(self, blocks: Sequence[int]) -> int:
        """How many of these somebody holds."""
        return sum(self._pool.holders(block) > 0 for block in blocks)

    # -- taking ----------------------------------------------------------------------------------

    def share(self, request: Request) -> list[int]:
        """Hold what it can share."""
        found = self.shareable(request)
        self._pool.hold(found)
        if found:
            self._recorded[request] = len(found)
        return found

    def begin(self, request: Request) -> tuple[list[int], Move | None]:
        """Hold the first blocks of an admitted request, as far as they are found.

        Sets ``computed_tokens`` and counts. Found whole, all but the last token counts as computed:
        that one is run again to sample from. It is written into its block, so while others hold
        the block the request gets a copy: the returned move.
        """
        blocks = self.share(request)
        request.computed_tokens = len(blocks) * self._size
        move = None
        source = self._last_of_full_hit(request, len(blocks))
        if source is not None:
            block, move = self._writable(source)
            blocks.append(block)
            request.computed_tokens = request.total_tokens - 1
        if self._pool.prefix_cache:
            self._count(request)
        return blocks, move

    def _last_of_full_hit(self, request: Request, found: int) -> int | None:
        """The cached block that the last known tokens fill, when all before it are found."""
        position, rest = divmod(request.total_tokens - 1, self._size)
        if not found == position < len(request.block_hashes) or not self._pool.prefix_cache:
            return None
        if not 0 < rest == self._size - 1:  # not full, or nothing in it but the last token
            return None
        return self._pool.prefixes.block(request.block_hashes[position])

    def _writable(self, source: int) -> tuple[int, Move | None]:
        shared = self._pool.holders(source) > 0
        self._pool.hold((source,))
        if not shared:
            # Nobody reads it: it is written in place, and found again once that is recorded.
            self._pool.prefixes.discard(source)
            return source, None
        self._sources.append(source)
        self.copied += 1
        (target,) = self._pool.allocate(1)
        return target, Move(source, target)

    def _count(self, request: Request) -> None:
        if request.preemptions:
            self.resumed += request.computed_tokens
        else:
            self.queried += request.total_tokens
            self.hit += request.computed_tokens
            request.cached_tokens = min(request.computed_tokens, request.prompt_tokens)

    def settle(self) -> None:
        """The copies of the last plan were carried out."""
        if self._sources:
            self._pool.release(self._sources)
            self._sources.clear()

    # -- leaving behind --------------------------------------------------------------------------

    def record(self, request: Request) -> None:
        """Let others find its full computed blocks whose hashes are known; O(new ones).

        A block that another request computed as well is given up for that one.
        """
        hashes, table = request.block_hashes, request.block_table
        if not hashes or not self._pool.prefix_cache:
            return
        full = min(request.computed_tokens // self._size, len(hashes), len(table))
        first = self._recorded.get(request, 0)
        if first >= full:
            return
        self._recorded[request] = full
        mine = table[first:full]
        known = self._pool.prefixes.add(hashes[first:full], mine)
        if known != mine:
            twins = [i for i, block in enumerate(mine) if known[i] != block]
            self._pool.hold(known[i] for i in twins)
            self._pool.release(mine[i] for i in reversed(twins))
            request.block_table = (*table[:first], *known, *table[full:])

    def leave(self, request: Request) -> None:
        """It gave up its blocks."""
        self._recorded.pop(request, None)

    def disown(self, request: Request) -> None:
        """Let nobody find its blocks any more; who holds them already keeps them."""
        for block in request.block_table[: self._recorded.get(request, 0)]:
            self._pool.prefixes.discard(block)

    # -- eviction --------------------------------------------------------------------------------

    def want(self, request: Request) -> None:
        """It waits: cached blocks of its known tokens are evicted last, until :meth:`unwant`."""
        if not request.block_hashes or not self._pool.prefix_cache or request in self._wanting:
            return
        hashes = request.block_hashes[: request.total_tokens // self._size]
        self._wanting[request] = hashes
        self._pool.prefixes.want(hashes)

    def unwant(self, request: Request) -> None:
        """It waits no longer; nothing happens if it did not :meth:`want`."""
        hashes = self._wanting.pop(request, None)
        if hashes is not None:
            self._pool.prefixes.unwant(hashes)

    def check_integrity(self, holders: Collection[Request]) -> None:
        """Raise ``RuntimeError`` when the index and ``holders`` (all requests) disagree."""
        held = [block for request in holders for block in request.block_table]
        self._pool.check_integrity([*held, *self._sources])
        self._pool.prefixes.check_wants(self._wanting.values())
        if not {*self._recorded, *self._wanting} <= set(holders):
            raise RuntimeError("a request that ended is remembered")
        for request, count in self._recorded.items():
            pairs = zip(request.block_table[:count], request.block_hashes[:count], strict=True)
            # Without a prefix: disowned by another that shared it.
            if any(self._pool.prefixes.key(block) not in (key, None) for block, key in pairs):
                raise RuntimeError(f"request {request.id!r} holds blocks of other prefixes")
