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
from engine.cuda.kernel import Pages
from engine.cuda.staging import Layout, Staging


@dataclass(frozen=True, slots=True)
class CudaBatch(Batch):
    """``singles`` are the sequences of one row, which come first, ``others`` those behind them.

    ``slots``: where keys and values go, int64 ``[T]``. ``buffer``: the memory that all tensors
    here are views of. ``bucket``: the size that a step of singles alone was padded to, 0 if it was
    not.
    """

    slots: torch.Tensor
    singles: Pages | None
    others: Pages | None
    buffer: torch.Tensor
    bucket: int


def build(
    packed: Packed, shape: KVShape, staging: Staging, bucket: int = 0, width: int = 0
) -> CudaBatch:
    """``packed`` on the device of ``staging``, whose pages are those of a
    :class:`~engine.cuda.pages.PagePool` of ``shape``.

    With a ``bucket`` and the ``width`` of its block tables, ``packed`` must hold singles alone,
    or nothing. Rows are then added that repeat token 0 at position 0 of the page that nobody owns;
    they come last, and are sampled from. A sequence wider than the tables is not padded.
    """
    size = shape.block_size
    used = np.array([step.start + step.tokens for step in packed.steps], dtype=np.int64)
    counts: Ints = -(-used // size)
    if bucket and counts.max(initial=0) > width:
        bucket = 0
    singles = bucket or packed.singles
    others = len(packed.steps) - packed.singles
    layout = Layout(
        tokens=len(packed.ids) + singles - packed.singles,
        singles=singles,
        others=others,
        sampled=bucket or len(packed.rows),
        pages=width if bucket else int(counts.max()),
    )
    _fill(layout.arrays(staging.room(layout.words)), packed, used, counts, shape)
    buffer = staging.send(layout.words)
    tensors = layout.tensors(buffer)
    rows = np.diff(packed.firsts)[packed.singles :]
    most = layout.pages * size

    def pages(name: str, start: int, count: int, rows: tuple[int, ...]) -> Pages | None:
        if not count:
            return None
        return Pages(
            firsts=tensors[f"{name}_firsts"],
            used=tensors["used"].narrow(0, start, count),
            ends=tensors[f"{name}_ends"],
            table=tensors["table"].narrow(0, start, count),
            rows=rows,
            most_used=most,
        )

    return CudaBatch(
        token_ids=tensors["token_ids"],
        positions=tensors["positions"],
        sampled=packed.sampled,
        sampled_rows=tensors["sampled_rows"],
        slots=tensors["slots"],
        singles=pages("single", 0, singles, (1,) * singles),
        others=pages("other", singles, others, tuple(rows.tolist())),
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
    into["other_firsts"][:] = np.asarray(packed.firsts[packed.singles :]) - packed.singles
    for name, lengths in (("single", into["used"][:singles]), ("other", into["used"][singles:])):
        into[f"{name}_ends"][0] = 0
        np.cumsum(lengths, out=into[f"{name}_ends"][1:])
