"""What must hold of a scheduler between any two calls."""

from __future__ import annotations

from engine.core.request import Request, Status
from engine.core.state import State


def check(state: State) -> None:
    """Raise ``RuntimeError`` when requests, order, blocks or counts contradict each other."""
    state.room.check_integrity()
    state.running.check_integrity()
    running, waiting = list(state.running), list(state.room)
    if sorted(request.id for request in [*running, *waiting]) != sorted(state.requests):
        raise RuntimeError("a request is lost or held twice")
    state.memory.check_integrity(state.requests.values())
    if len(running) > state.config.max_num_seqs:
        raise RuntimeError(f"{len(running)} requests run, {state.config.max_num_seqs} may")
    for request in running:
        _check_running(state, request)
    for request in waiting:
        _check_waiting(state, request)
    state.paused.check_integrity()
    if {each.id for each in state.paused} != {each.id for each in waiting if each.block_table}:
        raise RuntimeError("a waiting request holds memory and is not paused, or the reverse")


def _check_running(state: State, request: Request) -> None:
    if request.status is not Status.RUNNING or request.host_blocks:
        raise RuntimeError(f"running request {request.id!r} is {request.status.name} or swapped")
    held = len(request.block_table) * state.config.block_size
    if not 0 <= request.computed_tokens <= held:
        raise RuntimeError(f"running request {request.id!r} computed more than it holds")
    if request.pending_tokens < 1:
        raise RuntimeError(f"running request {request.id!r} has nothing to compute")
    if (request.id in state.prefilling) != request.prefills:
        raise RuntimeError(f"running request {request.id!r} is counted wrongly as prefilling")


def _check_waiting(state: State, request: Request) -> None:
    if request.status is not Status.WAITING:
        raise RuntimeError(f"waiting request {request.id!r} is {request.status.name}")
    if request.computed_tokens and not (request.block_table or request.host_blocks):
        raise RuntimeError(f"waiting request {request.id!r} computed what is kept nowhere")
