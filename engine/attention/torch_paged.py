"""Paged attention in operators of torch: on any device, and what others are held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F

from engine.attention.interface import Spec, StepContext
from engine.attention.pool import KVShape
from engine.attention.torch_batch import Chunk, Decodes, TorchBatch, build
from engine.attention.torch_pool import TorchPool
from engine.core.plan import Plan


class TorchPaged:
    """A :class:`~engine.attention.interface.Backend`."""

    page = 1

    def pool(self, shape: KVShape, dtype: torch.dtype, device: torch.device) -> TorchPool:
        return TorchPool(shape, dtype, device)

    def batch(
        self, plan: Plan, tokens: Mapping[str, Sequence[int]], shape: KVShape, device: torch.device
    ) -> TorchBatch:
        return build(plan, tokens, shape, device)

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
        assert isinstance(pool, TorchPool)
        assert isinstance(batch, TorchBatch)
        pool.write(layer, batch.slots, k, v)
        if spec.window is not None or spec.softcap is not None or spec.sinks is not None:
            chunks = (*batch.singles(), *batch.chunks)
            return torch.cat([_plain(q, pool, layer, chunk, spec) for chunk in chunks])
        parts = []
        if (decodes := batch.decodes) is not None:
            parts.append(_decode(q[: decodes.sequences], pool, layer, decodes, spec.scale))
        parts += [_prefill(q, k, v, pool, layer, chunk, spec.scale) for chunk in batch.chunks]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def _decode(
    q: torch.Tensor, pool: TorchPool, layer: int, decodes: Decodes, scale: float
) -> torch.Tensor:
    """``q [S, heads, dim]`` against each sequence's blocks, ``[S, heads, dim]``.

    Softmax per block, then blocks joined by their log-sum-exp (flash-decoding, Dao et al. 2023):
    no sequence is padded to the longest, and scaled_dot_product_attention, which is slow on a CPU
    for one query, isn't needed.
    """
    keys, values = _read(pool.keys[layer], decodes), _read(pool.values[layer], decodes)
    n, size, kv_heads = len(decodes.owner), pool.shape.block_size, pool.shape.kv_heads
    s, heads, dim = q.shape
    group = heads // kv_heads
    queries = (
        (q if scale == 1.0 else q * scale)
        .index_select(0, decodes.owner)
        .view(n * kv_heads, group, dim)
    )
    scores = _each(_scores, queries, [part.view(-1, size, dim) for part in keys], decodes, kv_heads)
    # float32 from here on: adding the float32 mask promotes.
    scores = scores.reshape(n, heads, size) + decodes.tail
    logs = torch.log_softmax(scores, -1)
    # Slot 0 of a block is never masked, so this difference is the block's log-sum-exp.
    total = scores[:, :, 0] - logs[:, :, 0]
    weights = logs.exp_().to(values[0].dtype).view(n * kv_heads, group, size)
    across = [part.view(-1, dim, size).transpose(1, 2) for part in values]
    partial = _each(torch.bmm, weights, across, decodes, kv_heads).view(n, heads, dim)
    share = total.index_select(0, decodes.table).view(s, -1, heads) + decodes.absent
    share = torch.softmax(share, 1).unsqueeze(-1)
    joined = partial.index_select(0, decodes.table).view(s, -1, heads, dim)
    return (joined * share).sum(1).to(q.dtype)


def _read(pool: torch.Tensor, decodes: Decodes) -> list[torch.Tensor]:
    """The blocks of ``decodes``: those in place, those copied, those shared, where there are any.
    They are not joined, which would copy them all."""
    parts = [pool[: decodes.in_place]] if decodes.in_place else []
    copied = (decodes.take, decodes.shared)
    return parts + [pool.index_select(0, blocks) for blocks in copied if blocks is not None]


def _each(
    product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    rows: torch.Tensor,
    parts: list[torch.Tensor],
    decodes: Decodes,
    kv_heads: int,
) -> torch.Tensor:
    """``product`` of ``rows [N · kv heads, group, :]`` with the ``parts`` they belong to, in order.

    Each of the last part belongs to ``decodes.owners`` rows if it is shared: all of them against it
    in one product, as prefixes are in Hydragen (Juravsky et al. 2024, arXiv 2402.05099).
    """
    if decodes.shared is None:
        return product(rows, parts[0])  # in place or all copied, never both
    last = len(decodes.shared) * decodes.owners * kv_heads
    pieces = torch.split(rows, [len(rows) - last, last])
    found = [product(pieces[0], parts[0])] if len(parts) > 1 else []
    group, inner = rows.shape[1:]
    ours = pieces[1].view(-1, decodes.owners, kv_heads, group, inner).transpose(1, 2)
    out = product(ours.reshape(-1, decodes.owners * group, inner), parts[-1])
    out = out.reshape(-1, kv_heads, decodes.owners, group, out.shape[-1]).transpose(1, 2)
    return torch.cat([*found, out.reshape(last, group, -1)])


def _scores(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """``[N, few, dim]`` times ``[N, size, dim]``, transposed, ``[N, few, size]``."""
    if queries.dtype == torch.float32 and not queries.is_cuda:
        # The side with the few rows last: a third less time (measured, MKL).
        return torch.bmm(keys, queries.transpose(1, 2)).transpose(1, 2)
    return torch.bmm(queries, keys.transpose(1, 2))


def _prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    pool: TorchPool,
    layer: int,
    chunk: Chunk,
    scale: float,
) -> torch.Tensor:
    """A prompt chunk against itself and, where it isn't the first, what the pool has before it."""
    rows = slice(chunk.row, chunk.row + chunk.count)
    query = q[rows].transpose(0, 1).unsqueeze(0)
    mask = None
    if chunk.start == 0:
        keys, values = (x[rows].transpose(0, 1).unsqueeze(0) for x in (k, v))
    else:
        keys, values = pool.read(layer, chunk.blocks, chunk.end)
        mask = torch.ones(chunk.count, chunk.end, dtype=torch.bool, device=q.device)
        mask = mask.tril(chunk.start)
    group = q.shape[1] // keys.shape[1]
    if group > 1:
        keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    out = F.scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, is_causal=mask is None, scale=scale
    )
    return out[0].transpose(0, 1)


def _plain(q: torch.Tensor, pool: TorchPool, layer: int, chunk: Chunk, spec: Spec) -> torch.Tensor:
    """As :func:`_prefill`, for any ``spec`` and slower: scores and weights as they are written."""
    query = q[chunk.row : chunk.row + chunk.count].transpose(0, 1)
    keys, values = (x[0] for x in pool.read(layer, chunk.blocks, chunk.end))
    group = len(query) // len(keys)
    keys, values = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0)
    scores = torch.matmul(query, keys.transpose(1, 2)).float() * spec.scale
    if spec.softcap is not None:
        scores = torch.tanh(scores / spec.softcap) * spec.softcap
    own = torch.arange(chunk.start, chunk.end, device=q.device)[:, None]
    seen = torch.arange(chunk.end, device=q.device)
    hidden = seen > own
    if spec.window is not None:
        hidden |= seen <= own - spec.window
    scores = scores.masked_fill(hidden, -torch.inf)
    if spec.sinks is not None:
        sinks = spec.sinks.float().view(-1, 1, 1).expand(-1, chunk.count, 1)
        scores = torch.cat((scores, sinks), -1)
    weights = torch.softmax(scores, -1)[..., : chunk.end].to(values.dtype)
    return torch.matmul(weights, values).transpose(0, 1)
