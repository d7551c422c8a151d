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


def test_integrity_sees_double_and_lost_owners():
    pool = BlockPool(4, 2)
    held = pool.allocate(2)
    pool.check_integrity([held])
    with pytest.raises(RuntimeError, match="two owners"):
        pool.check_integrity([held, held[:1]])
    with pytest.raises(RuntimeError, match="owned"):
        pool.check_integrity([held[:1]])
    pool.release(held)
    with pytest.raises(RuntimeError, match="free block"):
        pool.check_integrity([held])


class Pool(RuleBasedStateMachine):
    """Against a set: no block is ever handed out twice, none is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(12, 4)
        self.tables: list[list[int]] = []

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
    def release(self, data):
        if self.tables:
            index = data.draw(st.integers(0, len(self.tables) - 1))
            self.pool.release(self.tables.pop(index))

    @invariant()
    def sound(self):
        self.pool.check_integrity(self.tables)
        assert self.pool.used == sum(map(len, self.tables))


TestPool = Pool.TestCase
