"""Blocks that held numbers which are not finite, and who still counts on what they held."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.plan import Move, Plan, Step


class Tainted:
    """Follows such blocks from the moment they are zeroed until somebody writes them anew.

    They must be zeroed, for a NaN reaches the next owner through masked slots; and a request that
    shares one (they began alike) would then go on from zeros, so it has to end too.
    """

    def __init__(self, block_size: int) -> None:
        self._size = block_size
        self._device: set[int] = set()
        self._host: set[int] = set()

    def add(self, blocks: Iterable[int]) -> None:
        """``blocks`` of the device were zeroed."""
        self._device.update(blocks)

    def lost(self, plan: Plan) -> set[str]:
        """The requests of ``plan`` that read such a block. Call once for each plan, in order."""
        if not self._device and not self._host:
            return set()
        _follow(plan.swap_out, self._device, self._host)
        _follow(plan.swap_in, self._host, self._device)
        _follow(plan.copies, self._device, self._device)
        lost = {step.request_id for step in plan.steps if self._reads(step)}
        for step in plan.steps:
            # A block is written from its first slot on, or was copied from another.
            first = -(-step.start // self._size)
            last = (step.start + step.tokens - 1) // self._size
            self._device.difference_update(step.block_table[first : last + 1])
        return lost

    def _reads(self, step: Step) -> bool:
        behind = -(-step.start // self._size)
        return not self._device.isdisjoint(step.block_table[:behind])


def _follow(moves: Iterable[Move], sources: set[int], targets: set[int]) -> None:
    for move in moves:
        if move.source in sources:
            targets.add(move.target)
        else:
            targets.discard(move.target)
