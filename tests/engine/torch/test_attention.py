"""Attention of decodes over blocks that several sequences share, wherever they lie."""

import pytest
import torch

from engine.attention.interface import Spec, StepContext
from engine.attention.pool import KVShape
from engine.attention.torch_paged import TorchPaged
from engine.attention.torch_pool import TorchPool
from engine.core.plan import Plan, Step

SHAPE = KVShape(layers=1, kv_heads=2, head_dim=4, num_blocks=64, block_size=4)


def naive(pool, q, table, length):
    keys, values = pool.read(0, torch.tensor(table), length)
    group = q.shape[0] // SHAPE.kv_heads
    keys, values = (x[0].repeat_interleave(group, 0) for x in (keys, values))
    weights = torch.softmax((keys @ q.unsqueeze(-1)).squeeze(-1), -1)
    return (weights.unsqueeze(1) @ values).squeeze(1)


@pytest.mark.parametrize(
    ("tables", "in_place", "copied", "shared"),
    [
        ([(0, 1, 2), (0, 1, 3), (4, 5)], 6, [], [0, 1]),
        ([(0, 1), (0, 2), (0, 1)], 3, [], [0, 1]),
        ([(40, 60, 3), (40, 60, 50), (7,), (60, 40)], 0, [3, 50, 7], [40, 60]),
        ([(40, 60), (60, 40)], 0, [], [40, 60]),
        ([(2, 0, 1), (3, 5)], 6, [], []),
        ([(62, 0, 11), (33, 45)], 0, [62, 0, 11, 33, 45], []),
    ],
    ids=["some shared", "most shared", "far apart", "all shared", "none shared", "all copied"],
)
def test_each_sequence_attends_to_its_own_blocks(tables, in_place, copied, shared):
    torch.manual_seed(0)
    pool = TorchPool(SHAPE, torch.float32, torch.device("cpu"))
    for part in (*pool.keys, *pool.values):
        part.normal_()
    lengths = [4 * len(table) - i for i, table in enumerate(tables)]
    steps = tuple(
        Step(str(i), length - 1, 1, table, True)
        for i, (table, length) in enumerate(zip(tables, lengths, strict=True))
    )
    tokens = {str(i): [0] * length for i, length in enumerate(lengths)}
    work = TorchPaged().batch(Plan(1, steps), tokens, SHAPE, torch.device("cpu"))
    assert work.decodes is not None
    assert work.decodes.in_place == in_place
    assert ([] if work.decodes.take is None else work.decodes.take.tolist()) == copied
    assert ([] if work.decodes.shared is None else work.decodes.shared.tolist()) == shared
    q = torch.randn(len(tables), 6, SHAPE.head_dim)
    # The newest token is written first; what it holds must be the same in shared blocks.
    k, v = torch.ones(2, len(tables), SHAPE.kv_heads, SHAPE.head_dim)
    out = TorchPaged().attend(q, k, v, StepContext(pool, work, TorchPaged()), 0, Spec(1.0))
    for i, (table, length) in enumerate(zip(tables, lengths, strict=True)):
        torch.testing.assert_close(out[i], naive(pool, q[i], table, length))
