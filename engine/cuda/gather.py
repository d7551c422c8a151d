"""Attention over pages in operators of torch: slow, and right for everything.

It copies the pages that it reads. What the kernels are held against when they are chosen, and what
computes that which no kernel does (soft-capped scores, float32).
"""

from __future__ import annotations

import torch

from engine.attention.interface import Spec
from engine.cuda.kernel import Pages

#: Bytes of keys that are copied at once.
_AT_ONCE = 1 << 28


class Gather:
    """A :class:`~engine.cuda.kernel.Kernel` for any device, number format and page size."""

    name = "torch operators over gathered pages"
    page = 1
    #: It reads the whole width of the table, which a graph would fix at the longest context.
    static = False

    def refuses(self, spec: Spec) -> str:
        return ""

    def __call__(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        pages: Pages,
        spec: Spec,
    ) -> torch.Tensor:
        width = pages.table.shape[1]
        bytes_each = width * keys[0].numel() * keys.dtype.itemsize
        together = max(1, _AT_ONCE // bytes_each)
        out, row, first = [], 0, 0
        while first < len(pages.rows):
            count = pages.rows[first]
            last = first + 1
            if not count:
                first = last
                continue
            # Sequences with as many rows as each other go together.
            while (
                last < len(pages.rows)
                and last - first < together
                and pages.rows[last] == count
                and count == 1
            ):
                last += 1
            rows = q[row : row + count * (last - first)]
            rows = rows.reshape(last - first, count, *q.shape[1:])
            table, used = pages.table[first:last], pages.used[first:last]
            k, v = (_gathered(pool, table) for pool in (keys, values))
            out.append(_attention(rows, k, v, used, spec).flatten(0, 1))
            row, first = row + count * (last - first), last
        return out[0] if len(out) == 1 else torch.cat(out)


def _gathered(pool: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """``pool [pages, page, ...]`` by ``table [S, M]``, ``[S, M · page, ...]``."""
    return pool.index_select(0, table.flatten()).view(len(table), -1, *pool.shape[2:])


def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, used: torch.Tensor, spec: Spec
) -> torch.Tensor:
    """``q [S, R, heads, dim]``, ``k`` and ``v [S, K, kv heads, dim]``, ``used [S]``; as ``q``."""
    s, rows, heads, dim = q.shape
    length, kv_heads = k.shape[1:3]
    group = heads // kv_heads
    queries = q.reshape(s, rows, kv_heads, group, dim).permute(0, 2, 3, 1, 4)
    scores = torch.matmul(queries.flatten(2, 3), k.permute(0, 2, 3, 1)).float() * spec.scale
    if spec.softcap is not None:
        scores = torch.tanh(scores / spec.softcap) * spec.softcap
    own = used[:, None] - rows + torch.arange(rows, device=q.device)
    ahead = torch.arange(length, device=q.device) - own[:, :, None]
    seen = ahead <= 0
    if spec.window is not None:
        seen &= ahead > -spec.window
    scores = scores.view(s, kv_heads, group, rows, length)
    scores = scores.masked_fill(~seen[:, None, None], -torch.inf)
    if spec.sinks is not None:
        sinks = spec.sinks.float().view(1, kv_heads, group, 1, 1)
        scores = torch.cat((scores, sinks.expand(s, -1, -1, rows, 1)), -1)
    weights = torch.softmax(scores, -1)[..., :length].to(v.dtype)
    out = torch.matmul(weights.flatten(2, 3), v.permute(0, 2, 1, 3))
    return out.view(s, kv_heads, group, rows, dim).permute(0, 3, 1, 2, 4).reshape(q.shape)
