"""Paged attention in compiled C, on a CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from engine.attention.interface import Spec, StepContext
from engine.attention.native_batch import NativeBatch, build
from engine.attention.native_pool import NativePool
from engine.attention.pool import KVShape
from engine.core.plan import Plan
from engine.native.library import Native
from engine.native.records import Heads, LayerRecord


class NativePaged:
    """A :class:`~engine.attention.interface.Backend` for float32 and bfloat16.

    Whatever is in the batch with it, and in however many chunks it came, a row's result has the
    same bits.
    """

    page = 1

    def __init__(self, native: Native) -> None:
        self.native = native

    def pool(self, shape: KVShape, dtype: torch.dtype, device: torch.device) -> NativePool:
        return NativePool(shape, dtype, self.native)

    def batch(
        self, plan: Plan, tokens: Mapping[str, Sequence[int]], shape: KVShape, device: torch.device
    ) -> NativeBatch:
        return build(plan, tokens, shape)

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
        assert isinstance(pool, NativePool)
        assert isinstance(batch, NativeBatch)
        _check(q, k, v, pool)
        q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
        out = torch.empty(q.shape, dtype=q.dtype)
        sinks = None if spec.sinks is None else spec.sinks.detach().float().contiguous()
        record = LayerRecord(
            q=q.data_ptr(), k=k.data_ptr(), v=v.data_ptr(), out=out.data_ptr(),
            q_row=q.stride(0), q_head=q.stride(1), k_row=k.stride(0), k_head=k.stride(1),
            v_row=v.stride(0), v_head=v.stride(1), out_row=out.stride(0),
            pool=pool.layers[layer], sinks=None if sinks is None else sinks.data_ptr(),
            scale=spec.scale, softcap=spec.softcap or 0.0, window=spec.window or 0,
            heads=Heads(q.shape[1], k.shape[1], q.shape[2], 0),
        )  # fmt: skip
        self.native.attend(record, batch.record, q.dtype)
        return out


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pool: NativePool) -> None:
    """C reads and writes where it is told to: what does not fit the pool must not get there."""
    wanted = (len(q), pool.shape.kv_heads, pool.shape.head_dim)
    if not (k.shape == v.shape == wanted and q.shape[2] == wanted[2]):
        raise NotImplementedError(
            f"keys {list(k.shape)} and values {list(v.shape)} for a cache of {list(wanted)}"
        )
    if not q.dtype == k.dtype == v.dtype == pool.dtype:
        raise NotImplementedError(
            f"queries, keys and values of {q.dtype}, {k.dtype}, {v.dtype} for one of {pool.dtype}"
        )
