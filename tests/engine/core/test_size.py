"""The unit that policies compare requests in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.costs import CostModel
from engine.core.policies import Size
from tests.engine.core.policy_parts import running, waiting

COST = CostModel(base=0.02, decode=0.001, prefill=0.0005, context=0.00001)


def test_tokens_without_a_cost_model():
    request = running("a", 7, prompt=500)
    assert Size().whole(request, 30.0) == 30.0
    assert Size().to_come(request, 7, 23.0) == 23.0


def test_work_by_hand():
    request = waiting("a", prompt=100)
    token = 0.02 / 8 + 0.001
    attended = 10 * (100 + 10 / 2)
    expected = 100 * 0.0005 + 10 * token + attended * 0.00001
    assert Size(COST, 8).whole(request, 10) == pytest.approx(expected)
    assert Size(COST, 8).to_come(request, 0, 10) == pytest.approx(expected)


def test_prefill_counts_until_it_is_done_and_again_after_memory_was_taken():
    size = Size(CostModel(0.0, 0.001, 0.0005), 1)
    request = waiting("a", prompt=100)
    request.computed_tokens = 60
    assert size.to_come(request, 0, 10) == pytest.approx(40 * 0.0005 + 10 * 0.001)
    decoding = running("a", 4, prompt=100)
    assert size.to_come(decoding, 4, 6) == pytest.approx(6 * 0.001)
    decoding.computed_tokens = 0
    assert size.to_come(decoding, 4, 6) == pytest.approx(104 * 0.0005 + 6 * 0.001)


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 64))
def test_work_done_and_work_to_come_make_the_whole(done, more, batch):
    size = Size(COST, batch)
    request = running("a", done, prompt=50)
    found = size.whole(request, done) + size.to_come(request, done, more)
    assert found == pytest.approx(size.whole(request, done + more))


def test_batch_is_named():
    with pytest.raises(ValueError, match="batch"):
        Size(COST, 0)
