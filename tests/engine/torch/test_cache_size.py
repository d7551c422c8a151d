"""How many blocks there is memory for."""

from dataclasses import replace

import pytest
import torch

from engine import cache_size
from engine.attention.cuda import CudaPaged
from engine.cache_size import Space
from engine.cuda.varlen import Varlen


def test_a_block_is_as_large_as_the_attention_reads_best(tiny_model):
    flash = replace(tiny_model, attention=CudaPaged(Varlen(), torch.device("cpu")))
    assert cache_size.block_size(tiny_model) == 32
    assert cache_size.block_size(tiny_model, 16) == 16
    assert cache_size.block_size(flash) == 256
    assert cache_size.block_size(flash, 512) == 512
    with pytest.raises(ValueError, match="block_size must be a multiple of 256"):
        cache_size.block_size(flash, 32)


def test_blocks_of_what_was_given(tiny_model):
    # float32, 3 layers, keys and values of 3 heads of 16 numbers: 1152 bytes a token.
    gib = 100.5 * 32 * 1152 / 2**30
    assert cache_size.blocks(tiny_model, 32, Space(gib, swap_gib=gib / 2), 16, 512) == (100, 50)
    # 2 requests of 512 tokens are 32 blocks.
    assert cache_size.blocks(tiny_model, 32, Space(gib), 2, 512) == (33, 0)
    with pytest.raises(ValueError, match="kv_gib: it leaves"):
        cache_size.blocks(tiny_model, 32, Space(gib / 200), 16, 512)
    with pytest.raises(ValueError, match="kv_gib: it leaves"):
        cache_size.blocks(tiny_model, 1_000_000, Space(), 16, 512)
    with pytest.raises(ValueError, match="kv_gib: 1000000 is more than"):
        cache_size.blocks(tiny_model, 32, Space(1_000_000), 16, 512)


def test_graphs_are_as_wide_as_a_request_can_be(tiny_model):
    assert cache_size.buckets(tiny_model, 5, 32, 100).pages == 16
    few = cache_size.buckets(tiny_model, 5, 32, 7)
    assert few.pages == 7
    assert few.sizes == (1, 2, 4, 5)
