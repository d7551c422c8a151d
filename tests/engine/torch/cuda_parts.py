"""Parts of the CUDA path that stand in for a GPU, so that all around them runs on a CPU."""

import contextlib

import torch
from torch.library import Library
from torch.utils._python_dispatch import TorchDispatchMode

#: Wait for the device, or make memory that a graph would not find again.
_FORBIDDEN = ("_local_scalar_dense", "nonzero", "lift_fresh", "is_nonzero", "unique", "equal")


def flash_attention(
    query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, debug, *,
    scale=None, window_size_left=None, window_size_right=None, seqused_k=None, alibi_slopes=None,
    block_table=None, num_splits=None,
):  # fmt: skip
    """``aten::_flash_attention_forward`` by the checks of torch's csrc/flash_attn/flash_api.cpp
    (mha_varlen_fwd, with pages), in float64."""
    total, heads, dim = query.shape
    pages, page, kv_heads, _ = key.shape
    sequences = len(cum_seq_q) - 1
    assert num_splits == 1, "pytorch#194167"
    assert not dropout_p
    assert not debug
    assert alibi_slopes is None
    assert page % 256 == 0, "Paged KV cache block size must be divisible by 256"
    assert dim % 8 == 0
    assert dim <= 256
    assert heads % kv_heads == 0
    assert value.shape == key.shape
    assert query.stride(-1) == key.stride(-1) == value.stride(-1) == 1
    for whole in (cum_seq_q, cum_seq_k, seqused_k, block_table):
        assert whole.dtype == torch.int32
        assert whole.is_contiguous()
    assert cum_seq_q.shape == cum_seq_k.shape == (sequences + 1,)
    assert seqused_k.shape == (sequences,)
    assert block_table.shape[0] == sequences
    rows = cum_seq_q.diff().tolist()
    used = seqused_k.tolist()
    assert cum_seq_q[0] == cum_seq_k[0] == 0
    assert sum(rows) == total
    assert max(rows) <= max_q
    assert max(used) <= max_k <= block_table.shape[1] * page
    assert all(r <= u > 0 for r, u in zip(rows, used, strict=True)), "writes out of bounds"
    assert bool(((block_table >= 0) & (block_table < pages)).all())
    assert cum_seq_k.diff().tolist() == used
    if is_causal:
        window_size_right = 0
    out, lse, first = torch.empty_like(query), torch.empty(heads, total), 0
    for index, (count, length) in enumerate(zip(rows, used, strict=True)):
        k, v = (x[block_table[index].long()].flatten(0, 1)[:length].double() for x in (key, value))
        k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
        scores = torch.einsum("rhd,khd->hrk", query[first : first + count].double(), k) * scale
        gap = torch.arange(length) - torch.arange(length - count, length)[:, None]
        hidden = torch.zeros_like(gap, dtype=torch.bool)
        if window_size_right >= 0:
            hidden |= gap > window_size_right
        if window_size_left >= 0:
            hidden |= gap < -window_size_left
        scores = scores.masked_fill(hidden, -torch.inf)
        mixed = torch.einsum("hrk,khd->rhd", scores.softmax(-1), v)
        out[first : first + count] = mixed.to(query.dtype)
        lse[:, first : first + count] = scores.logsumexp(-1)
        first += count
    return out, lse, torch.zeros(2, dtype=torch.uint64), torch.zeros(()), torch.zeros(0)


@contextlib.contextmanager
def flash_attention_on_cpu(implementation=flash_attention):
    """``varlen_attn`` runs on the CPU, down to the operator that has kernels for GPUs alone."""
    library = Library("aten", "IMPL")
    library.impl("_flash_attention_forward", implementation, "CPU")
    try:
        yield
    finally:
        library._destroy()


class Rerun:
    """Records work by keeping it: what replays it computes anew, into the same memory."""

    def record(self, work):
        result = work().clone()
        return lambda: result.copy_(work()), result


class Static(TorchDispatchMode):
    """Fails where a graph could not be recorded."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in _FORBIDDEN:
            raise AssertionError(f"{name} in a step that is to be a graph")
        if name in ("index", "index_put_", "index_put"):
            found = [i.dtype for i in args[1] if i is not None]
            assert torch.bool not in found, "indexed by a mask in a step that is to be a graph"
        return func(*args, **(kwargs or {}))
