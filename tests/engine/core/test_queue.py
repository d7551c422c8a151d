import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.queue import WaitingQueue
from engine.core.request import Request


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=300))
def test_pops_in_order_of_place_whatever_is_removed(entries):
    queue = WaitingQueue()
    expected = []
    for number, (key, removed) in enumerate(entries):
        request = Request(str(number), 0.0, 1)
        queue.push(request, ((float(key),), number))
        if removed:
            queue.remove(request)
        else:
            expected.append((key, number))
        queue.check_integrity()
    assert [int(queue.pop().id) for _ in range(len(queue))] == [n for _, n in sorted(expected)]
    assert queue.peek() is None
    with pytest.raises(IndexError):
        queue.pop()


def test_refuses_twins_and_strangers():
    queue = WaitingQueue()
    queue.push(Request("a", 0.0, 1), ((0.0,), 0))
    with pytest.raises(ValueError, match="'a'"):
        queue.push(Request("a", 0.0, 1), ((0.0,), 1))
    with pytest.raises(KeyError):
        queue.remove(Request("a", 0.0, 1))
