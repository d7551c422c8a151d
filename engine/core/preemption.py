"""Who gives way when memory is short, and whether its memory is dropped or moved to the host.

Recomputing costs the prefill of prompt and output again and grows with what was done; swapping
costs the bytes both ways while the batch waits. Only blocks that nobody else holds count as freed:
a request that shares most of its blocks is a poor victim (vllm RFC 54644 asks for this choice).
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.config import PreemptionMode, SchedulerConfig
from engine.core.memory import Memory
from engine.core.request import Request

#: Candidates looked at, from the end of the order. Order decides first; cost only among neighbours.
_LOOK = 16


class Preemption:
    """Chooses by cost where the configuration has a cost model, else the last in order."""

    def __init__(self, config: SchedulerConfig, memory: Memory) -> None:
        self._mode = config.preemption.mode
        self._cost = config.cost
        self._max_stalls = config.preemption.max_stalls
        self._block_size = config.block_size
        self._memory = memory

    def protected(self, request: Request) -> bool:
        """Whether it lost its memory so often that others are to be taken first."""
        return request.evictions >= self._max_stalls

    def victim(self, candidates: Iterable[Request]) -> Request | None:
        """One of ``candidates``, which come last in order first; None when there are none.

        The cheapest block freed decides, and the later place where that is within a tenth.
        """
        fallback: Request | None = None
        best: Request | None = None
        least = 0.0
        looked = 0
        for request in candidates:
            fallback = fallback or request
            if self.protected(request):
                continue
            if looked == _LOOK:
                break
            looked += 1
            price = self._price(request)
            if best is None or price < 0.9 * least:
                best, least = request, price
        return best or fallback

    def swaps(self, request: Request) -> bool:
        """Whether its memory is to be moved to the host rather than dropped."""
        if self._mode is PreemptionMode.RECOMPUTE or not self._memory.can_swap_out(request):
            return False
        if self._mode is PreemptionMode.SWAP:
            return True
        return self._cost is not None and self._swap(request) < self._recompute(request)

    def _price(self, request: Request) -> float:
        """Seconds per block freed."""
        freed = self._memory.exclusive(request)
        if freed == 0:
            return float("inf")
        if self._cost is None:
            return 0.0
        seconds = self._swap(request) if self.swaps(request) else self._recompute(request)
        return seconds / freed

    def _swap(self, request: Request) -> float:
        assert self._cost is not None
        return 2.0 * self._cost.swap * len(request.block_table) * self._block_size

    def _recompute(self, request: Request) -> float:
        """What others hold as well is found again."""
        assert self._cost is not None
        lost = min(request.computed_tokens, self._memory.exclusive(request) * self._block_size)
        return self._cost.prefill * lost
