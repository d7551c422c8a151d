"""A plan as tensors: what the model and the attention of one step need, built once per step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from engine.core.plan import Plan, Step
from engine.paged import KVShape, Slots

Ints = NDArray[np.int64]


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
class Batch:
    """One step, packed: decodes first, then prompt chunks; T tokens in all.

    ``token_ids`` and ``positions``: int64 ``[T]``. ``slots``: where its keys and values go.
    ``sampled_rows``: the packed row of each request in ``sampled``.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: Slots
    sampled: tuple[str, ...]
    sampled_rows: torch.Tensor
    decodes: Decodes | None
    chunks: tuple[Chunk, ...]


def build(
    plan: Plan, tokens: Mapping[str, Sequence[int]], shape: KVShape, device: torch.device
) -> Batch:
    """Pack ``plan``; ``tokens[id]`` is prompt + output of a request, as far as it is known.

    Raises ``ValueError`` when the plan is empty, or runs a token that is not known yet.
    """
    if not plan.steps:
        raise ValueError("plan.steps must not be empty")
    decodes = [step for step in plan.steps if step.decodes]
    prompts = [step for step in plan.steps if not step.decodes]
    ids: list[int] = []
    positions: list[np.ndarray] = []
    slots: list[np.ndarray] = []
    sampled: list[str] = []
    rows: list[int] = []
    chunks: list[Chunk] = []
    for step in (*decodes, *prompts):
        end = step.start + step.tokens
        known = tokens[step.request_id]
        if end > len(known):
            raise ValueError(
                f"plan runs position {end - 1} of request {step.request_id!r}, "
                f"which has {len(known)} tokens"
            )
        where = np.arange(step.start, end)
        table = np.asarray(step.block_table)
        if not step.decodes:
            used = -(-end // shape.block_size)
            blocks = torch.from_numpy(table[:used].astype(np.int64)).to(device)
            chunks.append(Chunk(len(ids), step.start, end, blocks))
        ids.extend(known[step.start : end])
        positions.append(where)
        slots.append(
            table[where // shape.block_size] * (shape.kv_heads * shape.block_size)
            + where % shape.block_size
        )
        if step.samples:
            sampled.append(step.request_id)
            rows.append(len(ids) - 1)
    heads = np.arange(shape.kv_heads) * shape.block_size
    kv_rows = (np.concatenate(slots)[:, None] + heads).reshape(-1)

    def tensor(values: object) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values, dtype=np.int64)).to(device)

    return Batch(
        token_ids=tensor(ids),
        positions=tensor(np.concatenate(positions)),
        slots=Slots(
            tensor(kv_rows), tensor(kv_rows // shape.block_size), tensor(kv_rows % shape.block_size)
        ),
        sampled=tuple(sampled),
        sampled_rows=tensor(rows),
        decodes=_decodes(decodes, shape, device) if decodes else None,
        chunks=tuple(chunks),
    )


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
