"""A model as a flat list of operators, built once, that C runs over buffers for every step."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from engine.attention.interface import StepContext
from engine.attention.native_batch import NativeBatch
from engine.attention.native_pool import NativePool
from engine.native.angles import Angles
from engine.native.library import Native
from engine.native.records import Act, Heads, Kind, Op, ProgramRecord, StepRecord

_NONE = -1
#: Packed weights begin at multiples of this, a line of the cache.
_ALIGN = 64


class Builder:
    """Collects operators. Buffers are numbers, each ``[rows, width]`` of the model's format."""

    def __init__(self, native: Native, dtype: torch.dtype) -> None:
        self._native = native
        self._dtype = dtype
        self._widths: list[int] = []
        self._ops: list[Op] = []
        self._linears: list[tuple[Op, Sequence[nn.Linear]]] = []
        self._kept: list[torch.Tensor] = []

    def buffer(self, width: int) -> int:
        self._widths.append(width)
        return len(self._widths) - 1

    def embed(self, output: int, weight: torch.Tensor, scale: float) -> None:
        self._add(Kind.EMBED, _NONE, output, scale=scale, weight=self._keep(weight))

    def norm(
        self, input: int, output: int, norm: Any, offset: float, residual: int = _NONE
    ) -> None:
        self._add(
            Kind.NORM, input, output, residual=residual, eps=_eps(norm), offset=offset,
            weight=self._keep(norm.weight),
        )  # fmt: skip

    def linear(
        self, input: int, output: int, layers: Sequence[nn.Linear], residual: int = _NONE
    ) -> None:
        """The outputs of ``layers`` side by side. The residual may be the output itself."""
        self._linears.append((self._add(Kind.LINEAR, input, output, residual=residual), layers))

    def head(self, input: int, layer: nn.Linear, softcap: float) -> None:
        """Logits, of the rows that :meth:`gather` left."""
        op = self._add(Kind.HEAD, input, _NONE, n=layer.out_features, softcap=softcap)
        self._linears.append((op, [layer]))

    def rotate(self, qkv: int, norms: tuple[Any, Any] | None, offset: float) -> None:
        """Turn queries and keys, normed before if there are ``norms`` (of queries, of keys)."""
        op = self._add(Kind.ROTATE, qkv, qkv, offset=offset)
        if norms is not None:
            op.eps = _eps(norms[0])
            op.weight, op.second = (self._keep(norm.weight) for norm in norms)

    def attend(
        self, qkv: int, output: int, layer: int, scale: float, window: int, softcap: float
    ) -> None:
        self._add(
            Kind.ATTEND, qkv, output, layer=layer, scale=scale, window=window, softcap=softcap
        )

    def gated(self, input: int, output: int, act: Act) -> None:
        self._add(Kind.GATED, input, output, act=act)

    def gather(self, input: int, output: int) -> None:
        """Go on with the rows whose logits are wanted."""
        self._add(Kind.GATHER, input, output)

    def finish(self, heads: tuple[int, int, int], angles: Angles) -> Program:
        """Pack all weights; ``heads``: of queries, of keys, and their size."""
        sizes = [
            self._native.packed_size(
                sum(layer.out_features for layer in layers), layers[0].in_features, self._dtype
            )
            for _, layers in self._linears
        ]
        offsets = [0]
        for size in sizes:
            offsets.append(offsets[-1] + math.ceil(size / _ALIGN) * _ALIGN)
        arena = self._native.memory(offsets[-1])
        for (op, layers), start in zip(self._linears, offsets, strict=False):
            target = arena[start:]
            weights = [layer.weight.detach() for layer in layers]
            weight = weights[0] if len(weights) == 1 else torch.cat(weights)
            self._native.pack(weight, target)
            op.n, op.k = weight.shape
            op.weight = target.data_ptr()
            if any(layer.bias is not None for layer in layers):
                op.second = self._keep(torch.cat([_bias(layer) for layer in layers]))
        record = ProgramRecord(
            bf16=int(self._dtype == torch.bfloat16), count=len(self._ops),
            heads=Heads(*heads, angles.rotary),
            ops=(Op * len(self._ops))(*self._ops),
            widths=(ctypes.c_int32 * len(self._widths))(*self._widths),
        )  # fmt: skip
        vocabulary = next(op.n for op in self._ops if op.kind == Kind.HEAD)
        return Program(
            self._native, record, self._widths, self._dtype, angles, vocabulary,
            (arena, *self._kept),
        )  # fmt: skip

    def _add(self, kind: Kind, input: int, output: int, **fields: Any) -> Op:
        op = Op(kind=kind, input=input, output=output, residual=fields.pop("residual", _NONE))
        op.n = 0 if output == _NONE else self._widths[output]
        op.k = 0 if input == _NONE else self._widths[input]
        for name, value in fields.items():
            setattr(op, name, value)
        self._ops.append(op)
        return op

    def _keep(self, tensor: torch.Tensor) -> int:
        tensor = tensor.detach().to(self._dtype).contiguous()
        self._kept.append(tensor)
        return tensor.data_ptr()


class Program:
    """A :class:`~engine.forward.Forward` over the pool and batches of ``NativePaged``.

    The logits of a call, floats, are overwritten by the next.
    """

    def __init__(
        self,
        native: Native,
        record: ProgramRecord,
        widths: Sequence[int],
        dtype: torch.dtype,
        angles: Angles,
        vocabulary: int,
        kept: Sequence[torch.Tensor],
    ) -> None:
        self._native = native
        self._record = record
        self._widths = widths
        self._dtype = dtype
        self._angles = angles
        self._kept = kept
        self._buffers: list[torch.Tensor] = []
        self._logits = torch.empty(0, vocabulary)

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor, step: StepContext
    ) -> torch.Tensor:
        pool, batch = step.pool, step.batch
        assert isinstance(pool, NativePool)
        assert isinstance(batch, NativeBatch)
        record = batch.record
        if not batch.sampled:
            rows = rows[:0]  # prompt chunks alone: the layers run, the head needn't
        self._reach(record, len(rows))
        record.sampled, record.wanted = len(rows), rows.data_ptr()
        record.pool = pool.layers
        record.cosines = self._angles.cosines.data_ptr()
        record.sines = self._angles.sines.data_ptr()
        record.logits = self._logits.data_ptr()
        self._native.run(self._record, record)
        return self._logits[: len(rows)]

    def _reach(self, step: StepRecord, sampled: int) -> None:
        """Memory for a step of that size, kept for later ones."""
        self._angles.reach(step.longest)
        if sampled > len(self._logits):
            # No more than that: a scored prompt has gigabytes of them.
            self._logits = torch.empty(sampled, self._logits.shape[1])
        if not self._buffers or step.rows > len(self._buffers[0]):
            rows = max(64, 2 * step.rows)
            self._buffers = [torch.empty(rows, width, dtype=self._dtype) for width in self._widths]
            addresses = [buffer.data_ptr() for buffer in self._buffers]
            self._record.data = (ctypes.c_void_p * len(addresses))(*addresses)


def _eps(norm: Any) -> float:
    """Llama's norms call it one thing, Gemma's another."""
    return float(norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps)


def _bias(layer: nn.Linear) -> torch.Tensor:
    """Zeros for a layer without one: Qwen2 has one on queries, keys and values alone."""
    if layer.bias is None:
        return layer.weight.new_zeros(layer.out_features)
    return layer.bias.detach()
