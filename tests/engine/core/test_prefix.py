import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.core.prefix import PrefixIndex


def index_of(*blocks, retired=True):
    """Block b holds prefix 100 + b; the first given is the least recently used."""
    index = PrefixIndex()
    for block in blocks:
        index.add([100 + block], [block])
        if retired:
            index.retire([block])
    return index


def evicted(index):
    return [index.evict() for _ in range(index.unheld)]


def test_finds_the_longest_known_prefix():
    index = index_of(0, 1, 3)
    assert index.find([100, 101, 102, 103], 4) == [0, 1]
    assert index.find([100, 101], 1) == [0]
    assert index.find([100], 9) == [0]
    assert index.find([102, 103], 2) == []


def test_a_prefix_has_one_block_and_a_block_one_prefix():
    index = index_of(0, retired=False)
    assert index.add([100, 101], [0, 1]) == (0, 1)
    assert index.add([100, 102], [5, 2]) == (0, 2)
    assert (index.key(5), len(index)) == (None, 3)
    with pytest.raises(ValueError, match="block 0 holds prefix 100 and cannot hold 7"):
        index.add([7], [0])


def test_a_discarded_block_is_not_found():
    index = index_of(0, retired=False)
    index.discard(0)
    index.discard(0)
    assert index.find([100], 1) == []
    assert index.retire([0]) == [0], "it is plainly free now"


def test_evicts_the_least_recently_used():
    index = index_of(2, 0, 1)
    index.revive(2)
    index.retire([2])
    assert evicted(index) == [0, 1, 2]
    assert (len(index), index.evicted) == (0, 3)
    with pytest.raises(KeyError):
        index.evict()


def test_wanted_blocks_go_last():
    index = index_of(0, 1, 2)
    index.want([100, 101])
    assert evicted(index) == [2, 1, 0]


def test_wanted_while_anybody_wants_it():
    index = index_of(0, 1)
    index.want([100])
    index.want([100])
    index.unwant([100])
    assert index.evict() == 1
    index = index_of(0, 1)
    index.want([100])
    index.unwant([100])
    assert evicted(index) == [1, 0], "the last to want it was its last use"


def test_wanted_before_it_is_known():
    index = PrefixIndex()
    index.want([101])
    for block in (1, 0):
        index.add([100 + block], [block])
        index.retire([block])
    assert evicted(index) == [0, 1]


def test_integrity_sees_wrong_tiers_and_wants():
    index = index_of(0)
    index.check_integrity([0])
    with pytest.raises(RuntimeError, match="tier"):
        index.check_integrity([1])
    index.want([100])
    index.check_wants([[100]])
    with pytest.raises(RuntimeError, match="nobody waits"):
        index.check_wants([])


class Tree(RuleBasedStateMachine):
    """Requests hold paths of a tree of prefixes. Node 0 is the empty prefix.

    Nobody ever keeps a block that only makes sense behind one that was evicted, and no block is
    evicted while one can be that nobody wants.
    """

    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex()
        self.parent = [0]
        self.held: list[list[int]] = []
        self.wanted: list[list[int]] = []
        self.refs: dict[int, int] = {}

    def path(self, node):
        path = []
        while node:
            path.append(node)
            node = self.parent[node]
        return path[::-1]

    def draw_path(self, data):
        return self.path(data.draw(st.integers(0, len(self.parent) - 1), label="node"))

    @rule(data=st.data(), more=st.integers(0, 3))
    def hold(self, data, more):
        """A request comes in, computes what is not found, and enters it. Block n holds node n."""
        path = self.draw_path(data)
        for _ in range(more):
            self.parent.append(path[-1] if path else 0)
            path.append(len(self.parent) - 1)
        found = self.index.find(path, len(path))
        assert found == path[: len(found)]
        for node in path:
            if node in found and not self.refs[node]:
                self.index.revive(node)
            self.refs[node] = self.refs.get(node, 0) + 1
        assert self.index.add(path, path) == tuple(path)
        self.held.append(path)

    @rule(data=st.data())
    def leave(self, data):
        if self.held:
            path = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
            for node in path:
                self.refs[node] -= 1
            assert self.index.retire(n for n in reversed(path) if not self.refs[n]) == []

    @rule(data=st.data())
    def want(self, data):
        self.wanted.append(self.draw_path(data))
        self.index.want(self.wanted[-1])

    @rule(data=st.data())
    def unwant(self, data):
        if self.wanted:
            self.index.unwant(self.wanted.pop(data.draw(st.integers(0, len(self.wanted) - 1))))

    @rule(count=st.integers(1, 4))
    def evict(self, count):
        wanted = {node for path in self.wanted for node in path}
        for _ in range(min(count, self.index.unheld)):
            unheld = {node for node, count in self.refs.items() if not count}
            block = self.index.evict()
            assert block in unheld
            assert block not in wanted or unheld <= wanted
            del self.refs[block]

    @invariant()
    def sound(self):
        refs = [self.refs.get(node, 0) for node in range(len(self.parent))]
        self.index.check_integrity(refs)
        self.index.check_wants(self.wanted)
        assert len(self.index) == len(self.refs)
        assert self.index.unheld == sum(count == 0 for count in self.refs.values())
        for node in self.refs:
            assert self.parent[node] == 0 or self.parent[node] in self.refs, "an orphan is cached"


Tree.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestTree = Tree.TestCase
