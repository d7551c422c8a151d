"""Which rows meet in which step, and the tensors they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ranker.encoder.text import padded
from ranker.losses.lengths import ListLengths
from training.encoder.rows import Rows

Index = NDArray[np.int64]
#: Batches cut from one sorted chunk. On real chat 24 of them pad by 5 %, 8 by 16 %.
_CHUNK = 24
#: Batches are as long as their longest row, rounded up to so many tokens. For every length that it
#: has met, oneDNN keeps what it made ready: 2,000 batches of any length took 4.4 GB, and going up.
_STEP = 8


def epoch_batches(sizes: Index, batch: int, seed: int, epoch: int) -> list[Index]:
    """Every row once, in batches of rows of similar size, in random order.

    Rows are shuffled, sorted by size within chunks of some batches and cut; the batches are
    shuffled. A function of its arguments alone: a resumed run asks again and gets the same.
    """
    rng = np.random.default_rng((seed, epoch))
    shuffled = rng.permutation(len(sizes))
    batches = []
    for start in range(0, len(shuffled), batch * _CHUNK):
        chunk = shuffled[start : start + batch * _CHUNK]
        chunk = chunk[np.argsort(sizes[chunk], kind="stable")]
        batches += [chunk[i : i + batch] for i in range(0, len(chunk), batch)]
    return [batches[i] for i in rng.permutation(len(batches))]


def sorted_batches(sizes: Index, batch: int) -> list[Index]:
    """Every row once, shortest first, for reading without learning."""
    order = np.argsort(sizes, kind="stable")
    return [order[i : i + batch] for i in range(0, len(order), batch)]


def share(index: Index, process: int, processes: int) -> Index:
    """The part of a batch that one process reads: the same number for each, every n-th row, so
    that none gets all the long ones. Where rows are missing, -1 fills up."""
    filled = np.full(-(-len(index) // processes) * processes, -1, dtype=np.int64)
    filled[: len(index)] = index
    return filled[process::processes]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the network reads: ``ids`` and ``mask`` ``[n, tokens]``, ``models`` ``[n]``."""

    ids: Tensor
    mask: Tensor
    models: Tensor


def inputs(rows: Rows, index: Index, pad: int, device: torch.device) -> Inputs:
    """The rows at ``index``; in place of -1 the first row, whose answers nobody looks at."""
    there = np.where(index < 0, 0, index)
    found = [rows.ids[i] for i in there]
    longest = max(map(len, found))
    ids, mask = padded(found, pad, min(rows.longest, -(-longest // _STEP) * _STEP))
    return Inputs(
        torch.from_numpy(ids).to(device),
        torch.from_numpy(mask).to(device),
        torch.from_numpy(rows.models[there]).to(device),
    )


def lengths(rows: Rows, index: Index, device: torch.device) -> ListLengths:
    """The lengths at ``index`` as one list; -1 is padding."""
    there = np.where(index < 0, 0, index)
    mask = rows.mask[there] & (index >= 0)[:, None]

    def tensor(column: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(column)[None].to(device)

    return ListLengths(
        tensor(rows.tokens[there].astype(np.float32)),
        tensor(rows.censored[there]),
        tensor(mask),
        tensor(rows.weights[there].astype(np.float32)),
    )
