"""Equal hashes mean equal beginnings, however the tokens became known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.hashing import BlockHasher

TOKENS = st.lists(st.integers(0, 3), max_size=30)
HASHER = BlockHasher(4, key=b"k")


def common(left, right):
    """Tokens that two sequences have in common at their beginnings."""
    return next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
        min(len(left), len(right)),
    )


@given(TOKENS, TOKENS)
def test_hashes_are_equal_for_exactly_the_common_blocks(left, right):
    found = common(HASHER.chain(left).hashes, HASHER.chain(right).hashes)
    assert found == common(left, right) // 4
    assert len(HASHER.chain(left).hashes) == len(left) // 4


@given(TOKENS, st.data())
def test_tokens_may_come_at_once_or_one_by_one(tokens, data):
    cut = data.draw(st.integers(0, len(tokens)))
    chain = HASHER.chain(tokens[:cut])
    shared = chain.hashes  # what the scheduler's request holds
    for token in tokens[cut:]:
        chain.append(token)
    assert shared == HASHER.chain(tokens).hashes


def test_the_same_tokens_at_another_place_are_another_block():
    first, second = HASHER.chain([1, 2, 3, 4] * 2).hashes
    assert first != second


def test_hashes_of_two_processes_do_not_meet():
    assert BlockHasher(1).chain([5]).hashes != BlockHasher(1).chain([5]).hashes


def test_blocks_hold_tokens():
    with pytest.raises(ValueError, match="block_size"):
        BlockHasher(0)
