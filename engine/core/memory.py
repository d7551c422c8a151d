"""The KV blocks of requests: how many a request still needs, and taking and giving them."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.blocks import BlockPool
from engine.core.config import SchedulerConfig
from engine.core.request import Request


class Memory:
    """A block pool seen through requests. Blocks are taken as tokens come, not ahead of them."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.pool = BlockPool(config.num_blocks, config.block_size)
        self._reserved = config.reserved_blocks

    @property
    def usage(self) -> float:
        """Share of blocks that are held, 0 to 1."""
        return self.pool.used / self.pool.num_blocks

    def fits(self, request: Request, beside_others: bool) -> bool:
        """Whether a waiting request's known tokens fit, with the watermark kept beside others."""
        reserved = self._reserved if beside_others else 0
        return self.pool.blocks_for(request.total_tokens) + reserved <= self.pool.free

    def can_hold(self, request: Request, tokens: int) -> bool:
        """Whether ``request`` can have blocks for ``tokens`` tokens in all."""
        return self._missing(request, tokens) <= self.pool.free

    def hold(self, request: Request, tokens: int) -> None:
        """Give it those blocks. Raises ``ValueError`` when they are not free."""
        request.block_table += tuple(self.pool.allocate(self._missing(request, tokens)))

    def drop(self, request: Request) -> None:
        """Take all its blocks back."""
        self.pool.release(request.block_table)
        request.block_table = ()

    def can_all_grow(self, requests: Iterable[Request], tokens: int) -> bool:
        """Whether each can compute ``tokens`` more tokens without anybody giving up blocks."""
        missing = sum(self._missing(r, r.computed_tokens + tokens) for r in requests)
        return missing <= self.pool.free

    def _missing(self, request: Request, tokens: int) -> int:
        return max(0, self.pool.blocks_for(tokens) - len(request.block_table))
