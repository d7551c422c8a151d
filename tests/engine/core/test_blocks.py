import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.core.blocks import BlockPool


def test_blocks_for_rounds_up():
    pool = BlockPool(4, 16)
    assert [pool.blocks_for(n) for n in (0, 1, 16, 17, 64)] == [0, 1, 1, 2, 4]
    assert pool.capacity == 64


def test_refuses_what_is_not_there_and_changes_nothing():
    pool = BlockPool(3, 1)
    held = pool.allocate(2)
    with pytest.raises(ValueError, match="1 are free"):
        pool.allocate(2)
    assert pool.free == 1
    pool.release(held)
    with pytest.raises(ValueError, match="not held"):
        pool.release(held[:1])
    with pytest.raises(ValueError, match="not held"):
        pool.release([3])


@pytest.mark.parametrize(("blocks", "size", "field"), [(0, 1, "num_blocks"), (1, 0, "block_size")])
def test_names_the_bad_field(blocks, size, field):
    with pytest.raises(ValueError, match=field):
        BlockPool(blocks, size)


def test_integrity_sees_lost_and_uncounted_holders():
    pool = BlockPool(4, 2)
    held = pool.allocate(2)
    pool.check_integrity(held)
    with pytest.raises(RuntimeError, match="2 holders but 1 are counted"):
        pool.check_integrity([*held, held[0]])
    with pytest.raises(RuntimeError, match="0 holders but 1 are counted"):
        pool.check_integrity(held[:1])
    pool.release(held)
    with pytest.raises(RuntimeError, match="holders"):
        pool.check_integrity(held)


def test_newest_freed_is_handed_out_first():
    pool = BlockPool(4, 2)
    first, second, third = pool.allocate(3)
    pool.release([first, third, second])
    assert pool.allocate(2) == [second, third]


def test_cached_blocks_are_free_and_handed_out_last():
    pool = BlockPool(3, 2)
    first, second = pool.allocate(2)
    pool.prefixes.add([7], [first])
    pool.release([first, second])
    assert (pool.free, pool.used) == (3, 0)
    taken = pool.allocate(2)
    assert first not in taken
    assert pool.prefixes.find([7], 1) == [first]
    assert pool.allocate(1) == [first]
    assert pool.prefixes.find([7], 1) == []
    assert pool.prefixes.evicted == 1


def test_a_held_block_is_shared_and_a_cached_one_revived():
    pool = BlockPool(2, 2)
    (block,) = pool.allocate(1)
    pool.prefixes.add([7], [block])
    pool.hold([block])
    assert (pool.shared, pool.exclusive([block]), pool.used) == (True, 0, 1)
    pool.release([block])
    assert (pool.shared, pool.exclusive([block]), pool.used) == (False, 1, 1)
    pool.release([block])
    pool.hold([block])
    assert (pool.holders(block), pool.free) == (1, 1)
    pool.check_integrity([block])
    with pytest.raises(ValueError, match="allocate it"):
        pool.hold([1 - block])


class Pool(RuleBasedStateMachine):
    """Against sets: no block is handed out twice, none is lost, cached ones can be found."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(12, 4)
        self.tables: list[list[int]] = []
        self.keys = 0

    @rule(count=st.integers(0, 14))
    def allocate(self, count):
        free = self.pool.free
        if count > free:
            with pytest.raises(ValueError, match="free"):
                self.pool.allocate(count)
        else:
            self.tables.append(self.pool.allocate(count))
            assert len(self.tables[-1]) == count
            assert self.pool.free == free - count

    @rule(data=st.data())
    def index(self, data):
        blocks = [block for table in self.tables for block in table]
        if blocks:
            block = data.draw(st.sampled_from(blocks))
            if self.pool.prefixes.key(block) is None:
                assert self.pool.prefixes.add([self.keys], [block]) == (block,)
                self.keys += 1

    @rule(data=st.data())
    def share(self, data):
        if self.keys:
            found = self.pool.prefixes.find([data.draw(st.integers(0, self.keys - 1))], 1)
            self.pool.hold(found)
            self.tables.append(found)

    @rule(data=st.data())
    def release(self, data):
        if self.tables:
            index = data.draw(st.integers(0, len(self.tables) - 1))
            self.pool.release(self.tables.pop(index))

    @invariant()
    def sound(self):
        held = [block for table in self.tables for block in table]
        self.pool.check_integrity(held)
        assert self.pool.used == len(set(held))
        assert self.pool.exclusive(set(held)) == sum(held.count(b) == 1 for b in set(held))


TestPool = Pool.TestCase
