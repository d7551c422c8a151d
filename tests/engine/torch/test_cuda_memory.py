"""How much of a GPU is left for keys and values."""

import pytest

from engine.cuda.memory import Memory, largest, run_largest

GIB = 2**30


def test_the_cache_gets_what_is_left_of_the_share():
    memory = Memory(total=80 * GIB, free=60 * GIB, step=2 * GIB)
    assert memory.for_cache(0.9) == pytest.approx(50 * GIB, abs=1)
    assert memory.for_cache(1.0) == 58 * GIB


@pytest.mark.parametrize(("share", "free"), [(0.2, 60), (0.9, 9), (0.275, 60)])
def test_nothing_left_says_what_to_change(share, free):
    memory = Memory(total=80 * GIB, free=free * GIB, step=2 * GIB)
    with pytest.raises(ValueError, match=r"gpu_memory_utilization: .* of 80\.0 GiB") as caught:
        memory.for_cache(share)
    for way in ("raise it", "max_num_batched_tokens", "max_num_seqs", "dtype", "a step takes 2.0"):
        assert way in str(caught.value)


@pytest.mark.parametrize(
    ("seqs", "tokens", "context", "expected"),
    [
        (4, 64, 512, [16, 16, 16, 16]),
        (3, 64, 512, [22, 21, 21]),
        (8, 8, 512, [1] * 8),
        # No prompt may be as long as the context.
        (2, 1000, 100, [99, 99]),
    ],
)
def test_the_largest_step_is_full(seqs, tokens, context, expected):
    plan, longest = largest(seqs, tokens, context, 16)
    assert [step.tokens for step in plan.steps] == expected
    assert longest == expected[0]
    assert all(step.samples and len(step.block_table) * 16 >= step.tokens for step in plan.steps)


def test_the_largest_step_runs(tiny_model):
    run_largest(tiny_model, 5, 64, 16)
