"""Taking many equal steps at once, for simulation: a trace then costs its events, not its tokens.

A step is quiet when it decodes exactly the running requests: nobody prefills, comes in, gives way,
gets another key or outgrows memory. Arrivals, ends and the passing of time are the caller's to
watch: they end a quiet stretch.
"""

from __future__ import annotations

from engine.core import progress
from engine.core.displacement import Displacement
from engine.core.state import State


def quiet_steps(state: State, limit: int, now: float, number: int) -> int:
    """How many of the next ``limit`` steps are sure to be quiet."""
    if limit < 1 or state.prefilling or state.full or not len(state.running):
        return 0
    if len(state.room):
        state.gate.admission.changed()  # steps were run, or skipped, since it was last asked
        if state.gate.admissible(now) is not None:
            return 0
        if state.displaces and Displacement(state, set(), set()).next(now) is not None:
            return 0
        starving = state.room.steps_to_starvation(now, number)
        if starving is not None:
            limit = min(limit, starving)
    if state.rekey_at:
        limit = min(
            limit,
            min(at - state.requests[name].output_tokens for name, at in state.rekey_at.items()) - 1,
        )
    return _that_fit(state, limit)


def skip(state: State, steps: int) -> None:
    """Take ``steps`` quiet steps at once, as that many plans and commits would have."""
    for request in state.running:
        progress.coast(state, request, steps)


def _that_fit(state: State, limit: int) -> int:
    """Steps that all running requests can take without anybody giving up blocks."""
    size, free = state.config.block_size, state.memory.free
    running = state.running
    # Each takes a block every ``size`` tokens, the first at once if need be.
    if limit < 1 or (limit // size + 1) * len(running) <= free:
        return max(0, limit)
    room = [len(r.block_table) * size - r.computed_tokens for r in running]
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if sum(max(0, -((have - middle) // size)) for have in room) <= free:
            low = middle
        else:
            high = middle - 1
    return low
