"""A kernel is tried before it is relied on, on pages as an engine has them."""

from __future__ import annotations

import numpy as np
import torch

from engine.attention.interface import Spec
from engine.attention.packing import Packed
from engine.attention.pool import KVShape
from engine.core.plan import Step
from engine.cuda.batch import build
from engine.cuda.buckets import Bucket
from engine.cuda.gather import Gather
from engine.cuda.kernel import Kernel
from engine.cuda.pages import PagePool
from engine.cuda.staging import Staging

#: Largest difference of outputs, which are means of values in [-1, 1].
_TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 4e-3, torch.float32: 1e-4}
#: Positions before and rows of each sequence, those of one row first.
_SEQUENCES = ((40, 1), (299, 1), (0, 1), (0, 70), (290, 33), (3, 2))
_DRAFTS = ((299, 1), (255, 3), (9, 2))


@torch.inference_mode()
def problem(
    kernel: Kernel,
    device: torch.device,
    dtype: torch.dtype,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    with_sinks: bool = False,
) -> str:
    """What is wrong with ``kernel`` here; empty: it gives what torch operators give.

    Tries decodes, padded ones, with drafts as well, chunks behind others, pages out of order, and
    a window; or all of that with sinks.
    """
    shape = KVShape(1, kv_heads, head_dim, 16, max(kernel.page, 64))
    pool = PagePool(shape, dtype, device)
    draw = torch.Generator().manual_seed(0)

    def numbers(*size: int) -> torch.Tensor:
        return (torch.rand(size, generator=draw) * 2 - 1).to(device, dtype)

    for part in pool.parts:
        part.copy_(numbers(*part.shape))
    # The reference computes in float32, so that the difference is the kernel's own.
    exact = [part.float() for part in pool.parts]
    sinks = numbers(heads) if with_sinks else None
    specs = (Spec(head_dim**-0.5, sinks=sinks), Spec(0.3, window=37, sinks=sinks))
    staging = Staging(device)
    for packed, bucket in (
        (_packed(_SEQUENCES, shape), None),
        (_packed(_SEQUENCES[:3], shape), None),
        (_packed(_SEQUENCES[:3], shape), Bucket(4, 1)),
        (_packed(_DRAFTS, shape), Bucket(8, 4)),
    ):
        batch = build(packed, shape, staging, bucket, 9)
        # As the model hands them over: heads first, transposed.
        q = numbers(heads, len(batch.token_ids), head_dim).transpose(0, 1)
        row = 0
        for pages in (batch.singles, batch.others):
            if pages is None:
                continue
            rows = q[row : row + sum(pages.rows)]
            row += sum(pages.rows)
            for spec in specs:
                try:
                    got = kernel(rows, pool.keys[0], pool.values[0], pages, spec)
                    wanted = Gather()(rows.float(), exact[0], exact[1], pages, spec)
                    off = float((got.float() - wanted).abs().max())
                except Exception as error:  # of whatever sort a foreign kernel raises
                    return f"{kernel.name} fails ({type(error).__name__}: {error})"
                if not off <= _TOLERANCE[dtype]:
                    return f"{kernel.name} is off by {off:.2g}"
    return ""


def _packed(chosen: tuple[tuple[int, int], ...], shape: KVShape) -> Packed:
    """Sequences on pages that lie backwards and apart."""
    steps, free = [], list(range(shape.num_blocks - 1, -1, -1))
    for index, (before, rows) in enumerate(chosen):
        count = -(-(before + rows) // shape.block_size)
        table, free = tuple(free[:count]), free[count:]
        steps.append(Step(str(index), before, rows, table, True))
    firsts = tuple(np.cumsum([0, *(rows for _, rows in chosen)]).tolist())
    return Packed(
        steps=tuple(steps),
        singles=sum(rows == 1 for _, rows in chosen),
        ids=np.zeros(firsts[-1], dtype=np.int64),
        positions=np.concatenate([np.arange(b, b + r) for b, r in chosen]),
        firsts=firsts,
        sampled=(),
        rows=tuple(range(firsts[-1])),
    )
