"""Blocks that go to the host and come back, and blocks that must not be counted on any more."""

import pytest
import torch

from engine import host
from engine.attention.pool import KVShape
from engine.attention.torch_pool import TorchPool
from engine.core.plan import Move, Plan, Step
from engine.host import HostPool
from engine.taint import Tainted

SHAPE = KVShape(layers=3, kv_heads=2, head_dim=4, num_blocks=24, block_size=5)


@pytest.fixture
def pool():
    filled = TorchPool(SHAPE, torch.float32, torch.device("cpu"))
    torch.manual_seed(0)
    for part in (*filled.keys, *filled.values):
        part.normal_()
    return filled


def content(pool, block):
    return [part[block].clone() for part in (*pool.keys, *pool.values)]


def same(left, right):
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("slab_blocks", [1, 3, 100])
def test_blocks_come_back_as_they_left_wherever_they_lay(pool, monkeypatch, slab_blocks):
    block_bytes = SHAPE.nbytes(torch.float32) // SHAPE.num_blocks
    monkeypatch.setattr(host, "_SLAB", slab_blocks * block_bytes)
    rooms = HostPool(pool, 20)
    before = {block: content(pool, block) for block in range(SHAPE.num_blocks)}
    out = [Move(block, (7 * block + 3) % 20) for block in range(17)]
    rooms.take_in(out)
    for part in (*pool.keys, *pool.values):
        part[:17] = -1.0
    back = [Move(move.target, 23 - move.source) for move in reversed(out)]
    rooms.give_back(back)
    assert all(same(content(pool, 23 - block), before[block]) for block in range(17))


def test_a_copy_leaves_its_source(pool):
    before = {block: content(pool, block) for block in range(SHAPE.num_blocks)}
    pool.copy(torch.tensor([1, 2]), torch.tensor([5, 9]))
    for target, source in ((5, 1), (9, 2), (1, 1), (2, 2), (3, 3)):
        assert same(content(pool, target), before[source])


def test_no_host_memory_is_no_room(pool):
    HostPool(pool, 0).take_in([])
    with pytest.raises(ValueError, match="num_blocks"):
        HostPool(pool, -1)


def test_only_broken_blocks_are_found(pool):
    pool.values[2][4, 1, 0, 3] = float("nan")
    pool.keys[0][7, 0, 2, 2] = float("inf")
    assert pool.broken(torch.tensor([1, 4, 5, 7])).tolist() == [4, 7]


def plan(*steps, **moves):
    return Plan(1, steps, **moves)


def test_who_reads_a_tainted_block_is_lost_until_it_is_written_anew():
    tainted = Tainted(4)
    shares = Step("shares", 8, 1, (3, 7, 8), True)
    assert tainted.lost(plan(shares)) == set()
    tainted.add([7])
    other = Step("other", 4, 4, (1, 2), True)
    assert tainted.lost(plan(shares, other)) == {"shares"}
    assert tainted.lost(plan(shares)) == {"shares"}
    # A new owner begins at its first slot, in the middle of its own prompt or at the start.
    assert tainted.lost(plan(Step("new", 4, 2, (1, 7), False))) == set()
    assert tainted.lost(plan(Step("new", 6, 1, (1, 7), True), shares)) == set()


def test_a_chunk_that_ends_within_a_tainted_block_reads_it_next():
    tainted = Tainted(4)
    tainted.add([7])
    # The second half of a block whose first half somebody else computed: copied, then lost.
    assert tainted.lost(plan(Step("a", 6, 1, (1, 7), True))) == {"a"}


def test_taint_follows_a_block_to_the_host_and_back_and_into_copies():
    tainted = Tainted(4)
    tainted.add([7])
    reads = Step("a", 8, 1, (9, 1, 2), True)
    assert tainted.lost(plan(reads, swap_out=(Move(7, 0), Move(6, 1)))) == set()
    # Given to somebody else meanwhile, who wrote it.
    assert tainted.lost(plan(Step("b", 0, 4, (7,), True))) == set()
    moved = plan(reads, swap_in=(Move(0, 9), Move(1, 1)))
    assert tainted.lost(moved) == {"a"}
    copied = plan(Step("c", 3, 1, (5,), True), copies=(Move(9, 5),))
    assert tainted.lost(copied) == {"c"}
    healed = plan(Step("c", 3, 1, (5,), True), copies=(Move(2, 5),))
    assert tainted.lost(healed) == set()
