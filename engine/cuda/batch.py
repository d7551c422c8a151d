"""A plan as the tensors that a kernel over pages needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from engine.attention.interface import Batch
from engine.attention.packing import Ints, Packed
from engine.attention.pool import KVShape
from engine.cuda.buckets import Bucket
from engine.cuda.kernel import Pages
from engine.cuda.staging import Layout, Staging


@dataclass(frozen=True, slots=True)
class CudaBatch(Batch):
    """``singles`` are the sequences of one row, which come first, ``others`` those behind them.

    ``slots``: where keys and values go, int64 ``[T]``. ``buffer``: the memory that all tensors
    here are views of. ``bucket``: what the step was padded to; ``None``: it was not.
    """

    slots: torch.Tensor
    singles: Pages | None
    others: Pages | None
    buffer: torch.Tensor
    bucket: Bucket | None


def build(
    packed: Packed,
    shape: KVShape,
    staging: Staging,
    bucket: Bucket | None = None,
    width: int = 0,
) -> CudaBatch:
    """``packed`` on the device of ``staging``, whose pages are those of a
    :class:`~engine.cuda.pages.PagePool` of ``shape``.

    With a ``bucket`` and the ``width`` of its block tables, every row of ``packed`` must be sampled
    from, if there are any. Rows are then added that repeat token 0 at position 0 of the page that
    nobody owns, each a sequence, and sequences without rows; all come last. A sequence wider than
    the tables is not padded.
    """
    size = shape.block_size
    used = np.array([step.start + step.tokens for step in packed.steps], dtype=np.int64)
    counts: Ints = -(-used // size)
    if bucket is not None and counts.max(initial=0) > width:
        bucket = None
    if bucket is None:
        singles, others = packed.singles, len(packed.steps) - packed.singles
        layout = Layout(len(packed.ids), singles, others, len(packed.rows), int(counts.max()))
    else:
        singles, others = (bucket.rows, 0) if bucket.each == 1 else (0, bucket.rows)
        layout = Layout(bucket.rows, singles, others, bucket.rows, width)
    arrays = layout.arrays(staging.room(layout.words))
    _fill(arrays, packed, used, counts, shape)
    rows = tuple(np.diff(arrays["other_firsts"]).tolist())
    buffer = staging.send(layout.words)
    tensors = layout.tensors(buffer)

    def pages(name: str, start: int, rows: tuple[int, ...]) -> Pages | None:
        if not rows:
            return None
        return Pages(
            firsts=tensors[f"{name}_firsts"],
            used=tensors["used"].narrow(0, start, len(rows)),
            ends=tensors[f"{name}_ends"],
            table=tensors["table"].narrow(0, start, len(rows)),
            rows=rows,
            most_rows=max(rows) if bucket is None else bucket.each,
            most_used=layout.pages * size,
        )

    return CudaBatch(
        token_ids=tensors["token_ids"],
        positions=tensors["positions"],
        sampled=packed.sampled,
        sampled_rows=tensors["sampled_rows"],
        slots=tensors["slots"],
        singles=pages("single", 0, (1,) * singles),
        others=pages("other", singles, rows),
        buffer=buffer,
        bucket=bucket,
    )


def _fill(
    into: Mapping[str, NDArray[Any]], packed: Packed, used: Ints, counts: Ints, shape: KVShape
) -> None:
    """Write every number of every field of ``into``, the memory holding those of another step."""
    size, spare = shape.block_size, shape.num_blocks
    tokens, sequences = len(packed.ids), len(packed.steps)
    filler = np.arange(len(into["token_ids"]) - tokens)
    into["token_ids"][:tokens] = packed.ids
    into["token_ids"][tokens:] = 0
    into["positions"][:tokens] = packed.positions
    into["positions"][tokens:] = 0
    into["slots"][tokens:] = spare * size + filler % size
    into["sampled_rows"][: len(packed.rows)] = packed.rows
    into["sampled_rows"][len(packed.rows) :] = tokens + filler
    # At least one position each, also of fillers: a kernel may write out of bounds for none.
    into["used"][:sequences] = used
    into["used"][sequences:] = 1
    # Behind a sequence's last page any page will do, but it must be one.
    into["table"].fill(spare)
    for row, (step, count) in enumerate(zip(packed.steps, counts.tolist(), strict=True)):
        table = np.asarray(step.block_table[:count], dtype=np.int64)
        into["table"][row, :count] = table
        first, last = packed.firsts[row], packed.firsts[row + 1]
        where = packed.positions[first:last]
        into["slots"][first:last] = table[where // size] * size + where % size
    singles = len(into["single_firsts"]) - 1
    into["single_firsts"][:] = np.arange(singles + 1)
    firsts = np.asarray(packed.firsts[min(singles, sequences) :]) - min(singles, sequences)
    others = into["other_firsts"]
    others[: len(firsts)] = firsts
    others[len(firsts) :] = np.minimum(
        firsts[-1] + 1 + np.arange(len(others) - len(firsts)), len(into["token_ids"]) - singles
    )
    for name, lengths in (("single", into["used"][:singles]), ("other", into["used"][singles:])):
        into[f"{name}_ends"][0] = 0
        np.cumsum(lengths, out=into[f"{name}_ends"][1:])
