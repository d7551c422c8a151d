"""What must hold of a scheduler between any two calls."""

from __future__ import annotations

from collections.abc import Collection

from engine.core.config import SchedulerConfig
from engine.core.memory import Memory
from engine.core.queue import WaitingQueue
from engine.core.request import Request, Status
from engine.core.running import RunningSet


def check(
    config: SchedulerConfig,
    memory: Memory,
    running: RunningSet,
    waiting: WaitingQueue,
    ids: Collection[str],
) -> None:
    """Raise ``RuntimeError`` when requests, order, blocks or counts contradict each other."""
    waiting.check_integrity()
    running.check_integrity()
    memory.pool.check_integrity(request.block_table for request in running)
    if sorted(request.id for request in [*running, *waiting]) != sorted(ids):
        raise RuntimeError("a request is lost or held twice")
    if len(running) > config.max_num_seqs:
        raise RuntimeError(f"{len(running)} requests run, {config.max_num_seqs} may")
    for request in running:
        _check_running(request, len(request.block_table) * config.block_size)
    for request in waiting:
        if request.status is not Status.WAITING or request.block_table or request.computed_tokens:
            raise RuntimeError(f"waiting request {request.id!r} holds memory")


def _check_running(request: Request, held: int) -> None:
    if request.status is not Status.RUNNING:
        raise RuntimeError(f"running request {request.id!r} is {request.status.name}")
    if not 0 <= request.computed_tokens <= held:
        raise RuntimeError(f"running request {request.id!r} computed more than it holds")
    if request.pending_tokens < 1:
        raise RuntimeError(f"running request {request.id!r} has nothing to compute")
