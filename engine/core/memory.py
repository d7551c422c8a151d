"""The KV memory of requests: what they need, hold, share, swap out and leave behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from engine.core.blocks import BlockPool
from engine.core.config import SchedulerConfig
from engine.core.host import HostPool
from engine.core.plan import Move
from engine.core.request import Request
from engine.core.reuse import Reuse


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Counts since the beginning.

    queried_tokens: known tokens of requests when first admitted, while the prefix cache is on.
    prefix_hit_tokens: those of them found in the cache. Hits of a preempted request that comes back
    are ``resume_hit_tokens``: mostly its own blocks, they would flatter the hit rate.
    evicted_blocks: cached blocks whose memory was needed. copied_blocks: copies on write.
    """

    queried_tokens: int = 0
    prefix_hit_tokens: int = 0
    resume_hit_tokens: int = 0
    evicted_blocks: int = 0
    copied_blocks: int = 0


class Memory:
    """Block pools seen through requests. Blocks are taken as tokens come, not ahead of them.

    A request holds device blocks (``block_table``), host blocks (``host_blocks``: it is swapped
    out) or none; a waiting one may keep its device blocks (it is paused). What takes blocks raises
    ``ValueError``, and changes nothing, when they are not free.

    Call :meth:`settle` once the moves of a plan were carried out, at the latest when the next one
    is begun. What those moves read is kept until then, so that executors may carry out all swaps,
    then all copies, in whatever order they were planned. What they write is the caller's care: a
    request that came in gives up nothing while the same plan is still being made.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self._pool = BlockPool(config.num_blocks, config.block_size, config.prefix_cache)
        self._host = HostPool(config.host_blocks)
        self._reuse = Reuse(self._pool)
        self._size = config.block_size

    @property
    def usage(self) -> float:
        """Share of device blocks that somebody holds, 0 to 1; cached ones are free."""
        return self._pool.used / self._pool.num_blocks

    @property
    def free(self) -> int:
        """Device blocks to be had without taking from anybody."""
        return self._pool.free

    @property
    def stats(self) -> MemoryStats:
        return MemoryStats(
            queried_tokens=self._reuse.queried,
            prefix_hit_tokens=self._reuse.hit,
            resume_hit_tokens=self._reuse.resumed,
            evicted_blocks=self._pool.prefixes.evicted,
            copied_blocks=self._reuse.copied,
        )

    # -- asking ----------------------------------------------------------------------------------

    def blocks_for(self, tokens: int) -> int:
        """Blocks that ``tokens`` tokens take."""
        return -(-tokens // self._size)

    def missing(self, request: Request, tokens: int) -> int:
        """Further blocks it needs to hold ``tokens`` tokens in all."""
        return max(0, -(-tokens // self._size) - len(request.block_table))

    def cached(self, request: Request) -> int:
        """Known tokens found in the prefix cache now; at least one is left to compute."""
        found = self._reuse.find(request, request.total_tokens)
        return min(len(found) * self._size, request.total_tokens - 1)

    def exclusive(self, *requests: Request) -> int:
        """Blocks that dropping all of these would free: those that nobody else holds."""
        return self._exclusive(requests, ())

    def obtainable(self, newcomer: Request, others: Sequence[Request]) -> int:
        """What ``free`` would be if ``others`` gave up their blocks, less those among them that
        ``newcomer`` is to share: it takes these again at once. Compare :meth:`admission_need`."""
        kept = () if newcomer.block_table else self._reuse.shareable(newcomer)
        return self.free + self._exclusive(others, kept)

    def admission_need(self, request: Request) -> int:
        """Blocks by which ``free`` shrinks when it is admitted, or swapped in.

        All but those that it kept, and those found in the cache that others hold already.
        """
        if request.block_table:
            return self.missing(request, request.total_tokens)
        held = self._reuse.held(self._reuse.shareable(request))
        return self.blocks_for(request.total_tokens) - held

    # -- taking ----------------------------------------------------------------------------------

    def admit(self, request: Request) -> Move | None:
        """Give it blocks for all known tokens, the cached ones first, and set what is computed.

        Found whole, all but the last token counts as computed: that one is run again to sample
        from. It is written into its block, so while others hold the block the request gets a copy:
        the returned move. A paused request keeps what it has. One that is swapped out is refused
        (``ValueError``): swap it in.
        """
        if request.host_blocks:
            raise ValueError(f"request {request.id!r} is swapped out: swap it in")
        if request.block_table:
            self.grow(request, request.total_tokens)
            return None
        self._demand(request)
        blocks, move = self._reuse.begin(request)
        blocks += self._pool.allocate(self.blocks_for(request.total_tokens) - len(blocks))
        request.block_table = tuple(blocks)
        return move

    def grow(self, request: Request, tokens: int) -> None:
        """Give it blocks for ``tokens`` tokens in all."""
        count = -(-tokens // self._size) - len(request.block_table)
        if count > 0:
            request.block_table += tuple(self._pool.allocate(count))

    def record(self, request: Request) -> None:
        """Let others find its full computed blocks whose hashes are known.

        Call it when a step was committed that filled a block; O(newly filled blocks). A block that
        another request computed as well is given up for that one, so the table may change.
        """
        self._reuse.record(request)

    # -- giving up -------------------------------------------------------------------------------

    def drop(self, request: Request) -> None:
        """Give up its blocks and what it computed; recorded blocks stay cached until evicted."""
        self._release(request)
        request.computed_tokens = 0

    def forget(self, request: Request, *, spoiled: bool = False) -> None:
        """It ended: give up whatever it holds or wants. ``spoiled``: what it computed may be wrong,
        so nobody is to find it; a retry computes it again."""
        if spoiled:
            self._reuse.disown(request)
        self._reuse.unwant(request)
        self._release(request)

    def want(self, request: Request) -> None:
        """It waits: cached blocks of its known tokens are evicted last, until :meth:`unwant`."""
        self._reuse.want(request)

    def unwant(self, request: Request) -> None:
        """It waits no longer; nothing happens if it did not :meth:`want`."""
        self._reuse.unwant(request)

    def _release(self, request: Request) -> None:
        if request.block_table:
            self._pool.release(reversed(request.block_table))
            request.block_table = ()
        if request.host_blocks:
            self._host.release(request.host_blocks)
            request.host_blocks = ()
        self._reuse.leave(request)

    # -- swapping --------------------------------------------------------------------------------

    def can_swap_out(self, request: Request) -> bool:
        """Whether it holds anything computed and the host has room for that."""
        count = self.blocks_for(request.computed_tokens)
        return bool(request.block_table) and 0 < count <= self._host.free

    def swap_out(self, request: Request) -> tuple[Move, ...]:
        """Give up its device blocks for host blocks that keep what it computed.

        Shared blocks are moved too: whoever else holds them may be gone before it is back.
        """
        if not self.can_swap_out(request):
            raise ValueError(f"request {request.id!r} cannot be swapped out; ask can_swap_out")
        table = request.block_table
        kept = tuple(self._host.allocate(self.blocks_for(request.computed_tokens)))
        self._release(request)
        request.host_blocks = kept
        return tuple(map(Move, table, kept))

    def swap_in(self, request: Request) -> tuple[Move, ...]:
        """Bring back what it computed and give it blocks for all known tokens.

        Leading blocks that are still cached on the device are shared, not moved.
        """
        kept = request.host_blocks
        if not kept:
            raise ValueError(f"request {request.id!r} is not swapped out")
        self._demand(request)
        found = self._reuse.share(request)
        fresh = self._pool.allocate(self.blocks_for(request.total_tokens) - len(found))
        self._host.leave(kept)
        request.host_blocks = ()
        # What is moved is found by others after the next record: only then has it arrived.
        request.block_table = (*found, *fresh)
        return tuple(map(Move, kept[len(found) :], fresh))

    def settle(self) -> None:
        """The moves of the last plan were carried out: what they read is given up."""
        self._reuse.settle()
        self._host.settle()

    # -- integrity -------------------------------------------------------------------------------

    def check_integrity(self, holders: Iterable[Request]) -> None:
        """Raise ``RuntimeError`` when pools, index and ``holders`` (all requests) disagree."""
        requests = list(holders)
        self._reuse.check_integrity(requests)
        self._host.check_integrity(request.host_blocks for request in requests)
        for request in requests:
            table, kept = request.block_table, request.host_blocks
            if table and kept:
                raise RuntimeError(f"request {request.id!r} is on device and host at once")
            if len(set(table)) != len(table):
                raise RuntimeError(f"request {request.id!r} holds a block twice")
            if self.blocks_for(request.computed_tokens) > max(len(table), len(kept)):
                raise RuntimeError(f"request {request.id!r} computed more than it holds")

    def _exclusive(self, requests: Sequence[Request], kept: Sequence[int]) -> int:
        tables = chain.from_iterable(request.block_table for request in requests)
        if not self._pool.shared and not kept:
            return sum(len(request.block_table) for request in requests)
        return self._pool.exclusive(tables, kept)

    def _demand(self, request: Request) -> None:
        need = self.admission_need(request)
        if need > self._pool.free:
            raise ValueError(f"request {request.id!r} needs {need} blocks, {self.free} are free")
