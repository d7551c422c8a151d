"""torch's FlashAttention on this GPU, and copies beside it."""

import pytest
import torch

from engine.attention.cuda import choose
from engine.attention.interface import Spec
from engine.attention.pool import KVShape
from engine.core.plan import Move
from engine.cuda import trial
from engine.cuda.gather import Gather
from engine.cuda.kernel import Pages
from engine.cuda.pages import PagePool
from engine.host import HostPool
from tests.engine.torch.gpu_parts import DEVICE, NEEDS_GPU, exact_float32

pytestmark = NEEDS_GPU
full_float32 = pytest.fixture(autouse=True)(exact_float32)
GPU = torch.device(DEVICE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("heads", [(9, 3, 64), (32, 8, 128), (12, 12, 80), (16, 4, 256)], ids=str)
def test_a_kernel_is_right(heads, dtype, record_property):
    backend = choose(GPU, dtype, *heads)
    record_property("attention", backend.kernel.name)
    assert trial.problem(backend.kernel, GPU, dtype, *heads) == ""
    if not backend.kernel.refuses(Spec(1.0, sinks=torch.zeros(1))):
        assert trial.problem(backend.kernel, GPU, dtype, *heads, with_sinks=True) == ""
    if torch.cuda.get_device_capability()[0] >= 8 and dtype == torch.bfloat16:
        assert backend.kernel.static, "torch's FlashAttention should serve this GPU"


def test_float32_is_exact():
    assert trial.problem(Gather(), GPU, torch.float32, 9, 3, 64) == ""


def test_a_row_does_not_depend_on_those_beside_it():
    kernel = choose(GPU, torch.bfloat16, 9, 3, 64).kernel
    page = max(kernel.page, 64)
    torch.manual_seed(0)
    keys, values = torch.randn(2, 40, page, 3, 64, device=GPU, dtype=torch.bfloat16)
    q = torch.randn(16, 9, 64, device=GPU, dtype=torch.bfloat16)
    lengths = [1 + 97 * i % (2 * page) for i in range(16)]

    def run(rows):
        used = torch.tensor([lengths[r] for r in rows], dtype=torch.int32)
        ends = torch.cat((used.new_zeros(1), used.cumsum(0, dtype=torch.int32)))
        table = torch.tensor([[2 * r, 2 * r + 1] for r in rows], dtype=torch.int32)
        firsts = torch.arange(len(rows) + 1, dtype=torch.int32)
        parts = (x.to(GPU) for x in (firsts, used, ends, table))
        pages = Pages(*parts, (1,) * len(rows), 1, 2 * page)
        return kernel(q[rows], keys, values, pages, Spec(0.125))

    together = run(list(range(16)))
    for row in (0, 3, 15):
        assert torch.equal(run([row])[0], together[row])
    assert torch.equal(run([15, 3]), together[[15, 3]])


@pytest.mark.parametrize("block", [16, 256])
def test_swapped_blocks_survive_what_is_written_meanwhile(block):
    """The blocks that left are overwritten at once, and work keeps the GPU busy."""
    shape = KVShape(layers=8, kv_heads=3, head_dim=64, num_blocks=48, block_size=block)
    pool = PagePool(shape, torch.bfloat16, GPU)
    for part in pool.parts:
        part.normal_()
    before = [part.clone() for part in pool.parts]
    host = HostPool(pool, 96)
    busy = torch.randn(2048, 2048, device=GPU)
    for turn in range(6):
        first = 48 * (turn % 2)
        for _ in range(5):
            busy = torch.tanh(busy @ busy)
        host.take_in([Move(i, first + (7 * i + turn) % 48) for i in range(48)])
        for part in pool.parts:
            part[:48] = -1.0
        host.give_back([Move(first + (7 * i + turn) % 48, i) for i in range(48)])
        for part, expected in zip(pool.parts, before, strict=True):
            assert torch.equal(part[:48], expected[:48]), turn


def test_a_host_block_is_fetched_before_it_is_overwritten():
    shape = KVShape(layers=4, kv_heads=3, head_dim=64, num_blocks=8, block_size=256)
    pool = PagePool(shape, torch.bfloat16, GPU)
    for block in range(8):
        for part in pool.parts:
            part[block] = block
    host = HostPool(pool, 4)
    host.take_in([Move(i, i) for i in range(4)])
    host.give_back([Move(i, 7 - i) for i in range(4)])
    host.take_in([Move(4 + i, i) for i in (1, 0, 3, 2)])
    host.give_back([Move(i, i) for i in range(4)])
    for part in pool.parts:
        found = part[:8].flatten(1).float().amax(1).tolist()
        assert found == [3, 2, 1, 0, 3, 2, 1, 0]
