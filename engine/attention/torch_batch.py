"""A plan as tensors: what the model and the torch attention of one step need, built once a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine.attention.interface import Batch
from engine.attention.packing import Ints, pack
from engine.attention.pool import KVShape
from engine.attention.torch_pool import Slots
from engine.core.plan import Plan, Step


@dataclass(frozen=True, slots=True)
class Chunk:
    """Prompt tokens ``[start, end)`` of one sequence at packed rows ``[row, row + count)``."""

    row: int
    start: int
    end: int
    blocks: torch.Tensor  #: int64, the sequence's blocks up to ``end``

    @property
    def count(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Decodes:
    """The sequences that add one token, as a flat list of N blocks; S sequences, at most M blocks.

    The first ``in_place`` of the list are the first blocks of the pool, read where they lie; then
    come copies of ``take``, then the blocks ``shared`` by several sequences, each ``owners`` times
    in a row: copied once, read by all. ``owner[n]`` is the sequence that block n belongs to (any,
    where it belongs to none),
    ``tail[n, 0, slot]`` is 0 or -inf, ``table[s * M + m]`` the place of sequence s's m-th block in
    the list, and ``absent[s, m, 0]`` 0 or -inf.
    """

    sequences: int
    in_place: int
    take: torch.Tensor | None
    shared: torch.Tensor | None
    owners: int
    owner: torch.Tensor
    tail: torch.Tensor
    table: torch.Tensor
    absent: torch.Tensor


@dataclass(frozen=True, slots=True)
class TorchBatch(Batch):
    """Decodes first, then prompt chunks. ``slots``: where keys and values of the step go."""

    slots: Slots
    decodes: Decodes | None
    chunks: tuple[Chunk, ...]
    steps: tuple[Step, ...]  #: of ``decodes``
    size: int  #: of a block, in tokens

    def singles(self) -> list[Chunk]:
        """What ``decodes`` has, as chunks of one token."""
        device = self.token_ids.device
        return [
            Chunk(row, step.start, step.start + 1, _blocks(step, self.size, device))
            for row, step in enumerate(self.steps)
        ]


def build(
    plan: Plan, tokens: Mapping[str, Sequence[int]], shape: KVShape, device: torch.device
) -> TorchBatch:
    """As :meth:`engine.attention.interface.Backend.batch`."""
    packed = pack(plan, tokens)
    slots: list[Ints] = []
    chunks: list[Chunk] = []
    for index, step in enumerate(packed.steps):
        row, end = packed.firsts[index], step.start + step.tokens
        where = packed.positions[row : packed.firsts[index + 1]]
        table = np.asarray(step.block_table, dtype=np.int64)
        if index >= packed.singles:
            blocks = _blocks(step, shape.block_size, device)
            chunks.append(Chunk(row, step.start, end, blocks))
        slots.append(
            table[where // shape.block_size] * (shape.kv_heads * shape.block_size)
            + where % shape.block_size
        )
    heads = np.arange(shape.kv_heads) * shape.block_size
    kv_rows = (np.concatenate(slots)[:, None] + heads).reshape(-1)

    def tensor(values: object) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values, dtype=np.int64)).to(device)

    decodes = packed.steps[: packed.singles]
    return TorchBatch(
        token_ids=tensor(packed.ids),
        positions=tensor(packed.positions),
        sampled=packed.sampled,
        sampled_rows=tensor(packed.rows),
        slots=Slots(
            tensor(kv_rows), tensor(kv_rows // shape.block_size), tensor(kv_rows % shape.block_size)
        ),
        decodes=_decodes(decodes, shape, device) if decodes else None,
        chunks=tuple(chunks),
        steps=decodes,
        size=shape.block_size,
    )


def _blocks(step: Step, size: int, device: torch.device) -> torch.Tensor:
    used = -(-(step.start + step.tokens) // size)
    return torch.tensor(step.block_table[:used], dtype=torch.int64, device=device)


def _decodes(steps: Sequence[Step], shape: KVShape, device: torch.device) -> Decodes:
    size = shape.block_size
    used = [-(-(step.start + 1) // size) for step in steps]
    most = max(used)
    blocks = np.concatenate(
        [np.asarray(s.block_table[:n], dtype=np.int64) for s, n in zip(steps, used, strict=True)]
    )
    highest = int(blocks.max()) + 1
    known, which, holders = np.unique(blocks, return_inverse=True, return_counts=True)
    alone = holders[which] == 1
    # Reading a block in place costs its product even when nobody owns it; gathering costs a copy.
    in_place = highest if len(known) * 1.5 >= highest else 0
    take = blocks[alone] if not in_place else blocks[:0]
    places = blocks.copy()
    if not in_place:
        places[alone] = np.arange(len(take))
    shared, owners = known[holders > 1], int(holders.max())
    first = in_place + len(take)
    places[~alone] = first + _in_rows(blocks[~alone], shared, owners)
    count = first + len(shared) * owners
    owner = np.zeros(count, dtype=np.int64)
    owner[places] = np.repeat(np.arange(len(steps)), used)
    filled = np.full(count, size)
    table = np.empty((len(steps), most), dtype=np.int64)
    absent = np.full((len(steps), most, 1), -np.inf, dtype=np.float32)
    first = 0
    for row, (step, n) in enumerate(zip(steps, used, strict=True)):
        # The filler is a block of its own: that of another, times 0, is NaN if it holds a NaN.
        table[row] = places[first]
        table[row, :n] = places[first : first + n]
        absent[row, :n] = 0.0
        filled[places[first + n - 1]] = step.start + 1 - (n - 1) * size
        first += n
    tail = np.where(np.arange(size) < filled[:, None], 0.0, -np.inf).astype(np.float32)
    return Decodes(
        sequences=len(steps),
        in_place=in_place,
        take=torch.from_numpy(take).to(device) if len(take) else None,
        shared=torch.from_numpy(shared).to(device) if len(shared) else None,
        owners=owners,
        owner=torch.from_numpy(owner).to(device),
        tail=torch.from_numpy(tail[:, None, :]).to(device),
        table=torch.from_numpy(table.reshape(-1)).to(device),
        absent=torch.from_numpy(absent).to(device),
    )


def _in_rows(blocks: Ints, shared: Ints, owners: int) -> Ints:
    """The place of each of ``blocks`` in a list that has each of ``shared`` ``owners`` times."""
    order = np.argsort(blocks, kind="stable")
    rows = np.searchsorted(shared, blocks[order])
    firsts = np.searchsorted(rows, np.arange(len(shared)))
    places = np.empty(len(blocks), dtype=np.int64)
    places[order] = rows * owners + np.arange(len(blocks)) - firsts[rows]
    return places
