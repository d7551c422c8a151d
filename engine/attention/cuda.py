"""Attention on a GPU: pages of keys and values, and a kernel that reads them where they lie."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from engine.attention.interface import Spec, StepContext
from engine.attention.packing import Packed, pack
from engine.attention.pool import KVShape
from engine.core.plan import Plan
from engine.cuda import trial, varlen
from engine.cuda.batch import CudaBatch, build
from engine.cuda.buckets import Bucket, Buckets
from engine.cuda.gather import Gather
from engine.cuda.kernel import Kernel
from engine.cuda.pages import PagePool
from engine.cuda.staging import Staging

log = logging.getLogger(__name__)

_NOTHING = Packed((), 0, np.empty(0, np.int64), np.empty(0, np.int64), (0,), (), ())


class CudaPaged:
    """A :class:`~engine.attention.interface.Backend`; runs on a CPU too, for the tests.

    ``kernel`` computes what it does not refuse, torch operators the rest. ``buckets``: what steps
    that only decode are padded to, for their graphs; ``None``: they are not. ``obstacle``: why no
    fast kernel serves, or empty.
    """

    def __init__(
        self,
        kernel: Kernel,
        device: torch.device,
        buckets: Buckets | None = None,
        obstacle: str = "",
    ) -> None:
        self.kernel = kernel
        self.buckets = buckets
        self.obstacle = obstacle
        self._device = device
        self._rest = Gather()
        self._staging = Staging(device)

    @property
    def page(self) -> int:
        return self.kernel.page

    def padded(self, buckets: Buckets) -> CudaPaged:
        """The same for an engine whose decode steps are to be padded."""
        return CudaPaged(self.kernel, self._device, buckets, self.obstacle)

    def pool(self, shape: KVShape, dtype: torch.dtype, device: torch.device) -> PagePool:
        """Raises ``ValueError`` when blocks are not of a size that the kernel takes."""
        if shape.block_size % self.page:
            raise ValueError(
                f"block_size must be a multiple of {self.page} for {self.kernel.name}, "
                f"got {shape.block_size}"
            )
        return PagePool(shape, dtype, device)

    def batch(
        self, plan: Plan, tokens: Mapping[str, Sequence[int]], shape: KVShape, device: torch.device
    ) -> CudaBatch:
        packed = pack(plan, tokens)
        # Where every row is sampled from, all steps decode.
        if self.buckets is None or len(packed.rows) < len(packed.ids):
            return build(packed, shape, self._staging)
        bucket = self.buckets.of(np.diff(packed.firsts).tolist())
        return build(packed, shape, self._staging, bucket, self.buckets.pages)

    def blank(self, bucket: Bucket, shape: KVShape) -> CudaBatch:
        """A batch of padding alone, as large as those of ``bucket``; a graph is recorded with it.

        Raises ``ValueError`` when nothing is padded here.
        """
        if self.buckets is None:
            raise ValueError("this backend pads nothing; take that of padded()")
        return build(_NOTHING, shape, self._staging, bucket, self.buckets.pages)

    def attend(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        step: StepContext,
        layer: int,
        spec: Spec,
    ) -> torch.Tensor:
        pool, batch = step.pool, step.batch
        assert isinstance(pool, PagePool)
        assert isinstance(batch, CudaBatch)
        pool.write(layer, batch.slots, k, v)
        kernel = self._rest if self.kernel.refuses(spec) else self.kernel
        if batch.bucket and not kernel.static:
            raise NotImplementedError(f"no graph can hold {kernel.name}")
        out, row = [], 0
        for pages in (batch.singles, batch.others):
            if pages is not None:
                rows = q[row : row + sum(pages.rows)]
                out.append(kernel(rows, pool.keys[layer], pool.values[layer], pages, spec))
                row += sum(pages.rows)
        return out[0] if len(out) == 1 else torch.cat(out)


def choose(
    device: torch.device, dtype: torch.dtype, heads: int, kv_heads: int, head_dim: int
) -> CudaPaged:
    """The fastest backend that was found right on ``device``.

    float32 always runs in torch operators, which is what exactness is tested with.
    """
    why = varlen.obstacle(device, dtype, head_dim)
    sizes = (heads, kv_heads, head_dim)
    for kernel in _kernels(device) if not why else ():
        why = trial.problem(kernel, device, dtype, *sizes)
        if not why:
            if off := trial.problem(kernel, device, dtype, *sizes, with_sinks=True):
                log.info("attention: sinks in torch operators: %s", off)
                kernel = replace(kernel, sinks=False)
            log.info("attention: %s", kernel.name)
            return CudaPaged(kernel, device)
        log.info("attention: %s", why)
    level = logging.INFO if dtype == torch.float32 else logging.WARNING
    log.log(level, "attention: torch operators, slowly and without CUDA graphs: %s", why)
    return CudaPaged(Gather(), device, obstacle=why)


def _kernels(device: torch.device) -> Iterator[varlen.Varlen]:
    """Those to try, the fastest first; each is the active one until the next is asked for."""
    version = varlen.activate(device)
    if version > 2:
        yield varlen.Varlen(version)
        varlen.restore()
    yield varlen.Varlen()
    yield varlen.Varlen(grouped=False)
