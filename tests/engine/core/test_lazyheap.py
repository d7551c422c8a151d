"""Items move, leave and come back; the smallest comes first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.lazyheap import LazyHeap

moves = st.lists(
    st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 3))), max_size=400
)


@given(moves)
def test_first_is_the_smallest_key_of_whoever_is_there(entries):
    heap: LazyHeap[int, int] = LazyHeap()
    model: dict[int, tuple[int, int]] = {}
    for number, (item, key) in enumerate(entries):
        if key is None:
            heap.discard(item)
            model.pop(item, None)
        else:
            heap.put(item, key)
            model[item] = (key, number)
        first = min(model, key=lambda name: model[name], default=None)
        assert heap.first() == (None if first is None else (model[first][0], first))
        assert set(heap) == set(model)
        assert len(heap) == len(model)
        for bound in range(-1, 4):
            above = [key for key, _ in model.values() if key > bound]
            assert heap.above(bound) == min(above, default=None)
        heap.check_integrity()


def test_an_item_that_moved_away_and_back_is_there_once():
    heap: LazyHeap[int, str] = LazyHeap()
    heap.put("a", 1)
    heap.put("a", 2)
    heap.put("a", 1)
    assert heap.key("a") == 1
    heap.discard("a")
    assert heap.first() is None
    assert "a" not in heap
    with pytest.raises(KeyError):
        heap.key("a")


def test_dead_entries_do_not_pile_up():
    heap: LazyHeap[int, str] = LazyHeap()
    heap.put("first", -1)
    for number in range(10_000):
        heap.put("moves", number)
    assert len(heap._entries) < 200
    assert heap.first() == (-1, "first")


def test_nothing_is_kept_of_items_once_all_are_gone():
    heap: LazyHeap[int, str] = LazyHeap()
    for name in "abc":
        heap.put(name, 1)
    for name in "abc":
        heap.discard(name)
    assert not heap._entries
    heap.put("d", 2)
    assert heap.first() == (2, "d")


def test_integrity_notices_a_lost_entry():
    heap: LazyHeap[int, str] = LazyHeap()
    heap.put("a", 1)
    heap._entries.clear()
    with pytest.raises(RuntimeError, match="lost"):
        heap.check_integrity()
    heap.put("a", 1)
    heap.put("b", 2)
    heap._entries.reverse()
    with pytest.raises(RuntimeError, match="order"):
        heap.check_integrity()
