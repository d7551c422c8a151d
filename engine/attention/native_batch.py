"""A plan as the arrays that the compiled kernels read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine.attention.interface import Batch
from engine.attention.packing import pack
from engine.attention.pool import KVShape
from engine.core.plan import Plan
from engine.native.records import StepRecord


@dataclass(frozen=True, slots=True)
class NativeBatch(Batch):
    """``record`` points into the tensors of the batch and into ``kept``."""

    record: StepRecord
    kept: tuple[object, ...]


def build(plan: Plan, tokens: Mapping[str, Sequence[int]], shape: KVShape) -> NativeBatch:
    """As :meth:`engine.attention.interface.Backend.batch`."""
    packed = pack(plan, tokens)
    ends = [step.start + step.tokens for step in packed.steps]
    used = [-(-end // shape.block_size) for end in ends]
    tables = np.zeros((len(packed.steps), max(used)), dtype=np.int32)
    for row, (step, count) in enumerate(zip(packed.steps, used, strict=True)):
        tables[row, :count] = step.block_table[:count]
    firsts = np.asarray(packed.firsts, dtype=np.int32)
    rows = torch.tensor(packed.rows, dtype=torch.int64)
    record = StepRecord(
        rows=len(packed.ids), sequences=len(packed.steps), block=shape.block_size,
        table_width=tables.shape[1], sampled=len(packed.rows), longest=max(ends),
        ids=packed.ids.ctypes.data, positions=packed.positions.ctypes.data,
        firsts=firsts.ctypes.data, tables=tables.ctypes.data, wanted=rows.data_ptr(),
    )  # fmt: skip
    return NativeBatch(
        token_ids=torch.from_numpy(packed.ids),
        positions=torch.from_numpy(packed.positions),
        sampled=packed.sampled,
        sampled_rows=rows,
        record=record,
        kept=(firsts, tables, packed),
    )
