"""Decode steps as CUDA graphs: hundreds of small kernels started by one call.

A graph repeats the addresses that it was recorded with. So there is one for each size that decode
steps are padded to, each with a buffer of its own for the step's numbers, and all with one pool
of memory for what happens in between: they never run at the same time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from engine.attention.cuda import CudaPaged
from engine.attention.interface import Backend, StepContext
from engine.attention.pool import KVPool
from engine.cuda.batch import CudaBatch
from engine.cuda.buckets import Bucket, Buckets
from engine.cuda.pages import PagePool
from engine.forward import Forward

log = logging.getLogger(__name__)


class Recorder(Protocol):
    """Turns work into something to repeat."""

    def record(self, work: Callable[[], torch.Tensor]) -> tuple[Callable[[], object], torch.Tensor]:
        """``work`` under way to be repeated, and where its result is after each time.

        Runs it once or more. Raises ``RuntimeError`` when it cannot be recorded.
        """
        ...


class CudaRecorder:
    """Records CUDA graphs that share one pool of memory, on one stream of their own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def record(self, work: Callable[[], torch.Tensor]) -> tuple[Callable[[], object], torch.Tensor]:
        home = torch.cuda.current_stream(self._device)
        mode = torch.cuda.get_sync_debug_mode()
        graph = torch.cuda.CUDAGraph()
        self._stream.wait_stream(home)
        try:
            with torch.cuda.stream(self._stream):
                # What is made at first use must not be made while recording; and work that waits
                # for the device is found now, since a recording that fails leaves a mess.
                work()
                torch.cuda.set_sync_debug_mode("error")
                work()
                torch.cuda.set_sync_debug_mode(mode)
            home.wait_stream(self._stream)
            # Other threads of a server may use CUDA meanwhile; "global" would forbid it to them.
            with torch.cuda.graph(
                graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
            ):
                result = work()
        finally:
            torch.cuda.set_sync_debug_mode(mode)
            # torch leaves the recording's stream in place when a recording fails.
            torch.cuda.set_stream(home)
        return graph.replay, result


@dataclass(frozen=True, slots=True)
class _Graph:
    batch: CudaBatch
    replay: Callable[[], object]
    logits: torch.Tensor


class Graphed:
    """A :class:`~engine.forward.Forward` that repeats graphs where a step has one.

    ``plain`` runs all other steps. ``attention`` and ``pool`` are those of the steps to come.
    """

    def __init__(
        self, plain: Forward, attention: CudaPaged, pool: PagePool, recorder: Recorder
    ) -> None:
        self._plain = plain
        self._graphs: dict[Bucket, _Graph] = {}
        # The largest first: the memory it takes serves the others.
        for bucket in attention.buckets.all if attention.buckets else ():
            batch = attention.blank(bucket, pool.shape)
            step = StepContext(pool, batch, attention)

            def work(batch: CudaBatch = batch, step: StepContext = step) -> torch.Tensor:
                return plain(batch.token_ids, batch.positions, batch.sampled_rows, step)

            self._graphs[bucket] = _Graph(batch, *recorder.record(work))

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """The steps that are graphs."""
        return tuple(self._graphs)

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor, step: StepContext
    ) -> torch.Tensor:
        """The logits of a graph are overwritten by the next step."""
        work = step.batch
        assert isinstance(work, CudaBatch)
        graph = None if work.bucket is None else self._graphs.get(work.bucket)
        if graph is None:
            return self._plain(ids, positions, rows, step)
        graph.batch.buffer.copy_(work.buffer, non_blocking=True)
        graph.replay()
        return graph.logits


@torch.inference_mode()
def recorded(
    plain: Forward, attention: Backend, pool: KVPool, buckets: Buckets
) -> tuple[Forward, Backend]:
    """``plain`` and ``attention`` with the decode steps of ``buckets`` as graphs; as they are
    where there is no GPU, and with a line in the log where the steps cannot be recorded."""
    if pool.device.type != "cuda" or not isinstance(attention, CudaPaged):
        return plain, attention
    assert isinstance(pool, PagePool)
    if not attention.kernel.static:
        log.info("CUDA graphs: off, for no graph can hold %s", attention.kernel.name)
        return plain, attention
    padded = attention.padded(buckets)
    before, begun = torch.cuda.mem_get_info(pool.device)[0], time.perf_counter()
    try:
        made = Graphed(plain, padded, pool, CudaRecorder(pool.device))
        torch.cuda.synchronize(pool.device)
    except (RuntimeError, NotImplementedError) as error:
        # RuntimeError: out of memory, or an operator that waits for the device, as those of
        # experts may.
        log.warning(
            "CUDA graphs: off, for the decode steps of this model cannot be recorded (%s: %s)",
            type(error).__name__,
            str(error).partition("\n")[0],
        )
        return plain, attention
    log.info(
        "CUDA graphs: %d sizes of decode steps recorded, up to %d rows, in %.1f s, %.2f GiB",
        len(made.buckets), made.buckets[0].rows, time.perf_counter() - begun,
        (before - torch.cuda.mem_get_info(pool.device)[0]) / 2**30,
    )  # fmt: skip
    return made, padded
