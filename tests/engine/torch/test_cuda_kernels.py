"""Kernels over pages, held against each other; FlashAttention as its source says it behaves."""

import logging

import pytest
import torch

from engine.attention.cuda import choose
from engine.attention.interface import Spec
from engine.cuda import trial
from engine.cuda.gather import Gather
from engine.cuda.kernel import Pages
from engine.cuda.varlen import Varlen
from tests.engine.torch.cuda_parts import flash_attention, flash_attention_on_cpu

CPU = torch.device("cpu")


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("sunk", [False, True])
def test_gathered_pages_give_what_softmax_gives(window, softcap, sunk):
    torch.manual_seed(0)
    q, keys, values = torch.randn(4, 6, 8), *torch.randn(2, 5, 4, 2, 8)
    sinks = torch.randn(6) if sunk else None
    # One row at position 6, three at 2..4.
    pages = Pages(ints(0, 1, 4), ints(7, 5), ints(0, 7, 12), ints(3, 0, 0).new_tensor(
        [[3, 0], [4, 1]]), (1, 3), 3, 8)  # fmt: skip
    got = Gather()(q, keys, values, pages, Spec(0.5, window, softcap, sinks))
    for row, (table, position) in enumerate([([3, 0], 6), *(([4, 1], p) for p in (2, 3, 4))]):
        first = 0 if window is None else max(0, position + 1 - window)
        seen = slice(first, position + 1)
        for head in range(6):
            k, v = (x[table].flatten(0, 1)[seen, head // 3] for x in (keys, values))
            scores = k @ q[row, head] * 0.5
            if softcap:
                scores = torch.tanh(scores / softcap) * softcap
            if sunk:
                scores = torch.cat((scores, sinks[head, None]))
            weights = torch.softmax(scores, -1)[: len(v)]
            torch.testing.assert_close(got[row, head], weights @ v)


def test_long_sequences_are_gathered_apart(monkeypatch):
    torch.manual_seed(0)
    q, keys, values = torch.randn(5, 4, 8), *torch.randn(2, 6, 4, 2, 8)
    table = ints(0, 1, 2, 3, 4, 5, 1, 0, 3, 2).view(5, 2)
    pages = Pages(ints(*range(6)), ints(8, 5, 1, 7, 3), ints(0, 8, 13, 14, 21, 24), table,
                  (1,) * 5, 1, 8)  # fmt: skip
    together = Gather()(q, keys, values, pages, Spec(1.0))
    monkeypatch.setattr("engine.cuda.gather._AT_ONCE", 1)
    torch.testing.assert_close(Gather()(q, keys, values, pages, Spec(1.0)), together)


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("heads", [(9, 3, 64), (8, 1, 128), (4, 4, 32)])
def test_flash_attention_is_called_as_it_demands(grouped, heads):
    kernel = Varlen(grouped=grouped)
    with flash_attention_on_cpu():
        for sinks in (False, True):
            assert trial.problem(kernel, CPU, torch.bfloat16, *heads, with_sinks=sinks) == ""


@pytest.mark.parametrize("version", [3, 4])
def test_newer_flash_attention_gets_no_bounds_of_keys(version):
    def newer(query, key, value, cum_seq_q, cum_seq_k, *rest, seqused_k, **named):
        assert cum_seq_k is None, "not together with a block table"
        ends = torch.cat((seqused_k.new_zeros(1), seqused_k.cumsum(0, dtype=torch.int32)))
        size = key.shape[1]
        # Pages of any size: shown to the checks as those of FlashAttention 2.
        wide = [torch.nn.functional.pad(x, (0, 0, 0, 0, 0, 256 - size)) for x in (key, value)]
        table = named.pop("block_table")
        assert table.dtype == torch.int32
        joined = [x[:, :size][table.long()].flatten(1, 2) for x in wide]
        short = -joined[0].shape[1] % 256
        joined = [torch.nn.functional.pad(x, (0, 0, 0, 0, 0, short)) for x in joined]
        pools = [x.reshape(-1, 256, *x.shape[2:]) for x in joined]
        each = pools[0].shape[0] // len(table)
        tables = torch.arange(len(table) * each, dtype=torch.int32).view(len(table), each)
        return flash_attention(query, *pools, cum_seq_q, ends, *rest, seqused_k=seqused_k,
                               block_table=tables, **named)  # fmt: skip

    with flash_attention_on_cpu(newer):
        assert trial.problem(Varlen(version), CPU, torch.bfloat16, 6, 2, 64) == ""


def wrong_lse(*args, **named):
    out, lse, *rest = flash_attention(*args, **named)
    return out, lse + 1, *rest


def unwritten_rows(*args, **named):
    out, *rest = flash_attention(*args, **named)
    out[1:2] = float("nan")
    return out, *rest


def unmasked(*args, **named):
    return flash_attention(*args, **(named | {"window_size_right": -1, "window_size_left": -1}))


def refusing(*args, **named):
    raise RuntimeError("FlashAttention only supports Ampere GPUs or newer")


@pytest.mark.parametrize("implementation", [wrong_lse, unwritten_rows, unmasked, refusing])
def test_a_kernel_that_errs_is_found(implementation):
    sinks = implementation is wrong_lse
    with flash_attention_on_cpu(implementation):
        problem = trial.problem(Varlen(), CPU, torch.bfloat16, 6, 2, 64, with_sinks=sinks)
    assert "FlashAttention 2" in problem
    assert ("only supports Ampere" in problem) == (implementation is refusing)


def test_soft_caps_are_refused():
    assert Varlen().refuses(Spec(1.0, softcap=30.0))
    assert not Varlen().refuses(Spec(1.0, window=5, sinks=torch.zeros(2)))
    assert Varlen(sinks=False).refuses(Spec(1.0, sinks=torch.zeros(2)))
    assert not Gather().refuses(Spec(1.0, softcap=30.0))


@pytest.fixture
def hopper(monkeypatch):
    """A GPU of compute capability 9.0, without FlashAttention 3."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))


@pytest.mark.parametrize(
    ("implementation", "kernel"),
    [
        (flash_attention, Varlen()),
        (wrong_lse, Varlen(sinks=False)),
        (unwritten_rows, Gather()),
    ],
    ids=["all is well", "wrong sums", "wrong rows"],
)
def test_the_fastest_kernel_that_is_right_is_chosen(hopper, caplog, implementation, kernel):
    with flash_attention_on_cpu(implementation):
        chosen = choose(CPU, torch.bfloat16, 6, 2, 64).kernel
    assert type(chosen) is type(kernel)
    if isinstance(kernel, Varlen):
        assert chosen == kernel
    else:
        assert "FlashAttention 2" in caplog.text
        assert "without CUDA graphs" in caplog.text


def test_a_kernel_that_errs_for_one_head_at_a_time_only_is_used_otherwise(hopper):
    def wrong_together(*args, **named):
        both = named["window_size_right"] == -1
        return (unwritten_rows if both else flash_attention)(*args, **named)

    with flash_attention_on_cpu(wrong_together):
        assert choose(CPU, torch.bfloat16, 6, 2, 64).kernel == Varlen(grouped=False)


@pytest.mark.parametrize(
    ("dtype", "head_dim", "capability", "reason"),
    [
        (torch.float32, 64, (9, 0), "use bfloat16 or float16"),
        (torch.float16, 64, (7, 5), "needs compute capability 8.0, this GPU has 7.5"),
        (torch.bfloat16, 100, (9, 0), "head dimensions in eights up to 256, not 100"),
        (torch.bfloat16, 320, (9, 0), "not 320"),
    ],
)
def test_what_no_kernel_serves_is_told(monkeypatch, caplog, dtype, head_dim, capability, reason):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    with caplog.at_level(logging.INFO, logger="engine.attention.cuda"):
        chosen = choose(CPU, dtype, 6, 2, head_dim)
    assert isinstance(chosen.kernel, Gather)
    assert reason in caplog.text
    assert reason in chosen.obstacle
