"""The backend of GPUs on a CPU: what it sends, what it computes, and that padding changes nothing.

``torch.nn.attention.varlen`` runs as on a GPU, down to the operator below it.
"""

from dataclasses import replace

import pytest
import torch

from engine.attention.cuda import CudaPaged
from engine.attention.interface import StepContext
from engine.attention.pool import KVShape
from engine.core.costs import CostModel
from engine.core.plan import Plan, Step
from engine.cuda.buckets import Bucket, Buckets
from engine.cuda.gather import Gather
from engine.cuda.varlen import Varlen
from engine.forward import Transformers
from engine.llama import Llama
from engine.sampling import SamplingParams
from tests.engine.torch.cuda_parts import flash_attention_on_cpu
from tests.engine.torch.drafters import ALWAYS, unreliable
from tests.engine.torch.reference import ROOMY, TIGHT, random_prompts, reference

CPU = torch.device("cpu")
SHAPE = KVShape(layers=3, kv_heads=3, head_dim=16, num_blocks=9, block_size=4)


@pytest.fixture
def flash():
    with flash_attention_on_cpu():
        yield


@pytest.fixture
def cuda_model(make_network, make_model):
    """A tiny model as it would be on a GPU, with attention by ``kernel``."""

    def make(kernel, buckets=None, forward=Llama):
        network = make_network()
        model = make_model(make_network())
        backend = CudaPaged(kernel, CPU, buckets)
        plain = Llama(network, pack=False) if forward is Llama else Transformers(network)
        if forward is Transformers:
            network.set_attn_implementation("shortfirst_paged")
        return replace(model, forward=plain, attention=backend)

    return make


def test_sizes_of_decode_steps():
    assert Buckets.upto(1, 4).sizes == (1,)
    assert Buckets.upto(5, 4).sizes == (1, 2, 4, 5)
    assert Buckets.upto(24, 4).sizes == (1, 2, 4, 8, 16, 24)
    assert Buckets.upto(300, 4).sizes[-4:] == (256, 272, 288, 300)
    found = [Buckets.upto(9, 4).of([1] * n) for n in (1, 3, 8, 9, 10)]
    assert found == [(1, 1), (4, 1), (8, 1), (9, 1), None]
    drafts = Buckets.upto(9, 4, drafts=3)
    assert drafts.verified == (2, 4, 8, 16, 32, 36)
    assert [drafts.of(rows) for rows in ([1, 1], [2, 1], [1, 4, 4])] == [(2, 1), (4, 4), (16, 4)]
    assert drafts.of([5]) is None
    assert drafts.of([4] * 10) is None
    assert Buckets.upto(9, 4).of([2, 1]) is None
    assert drafts.all[:3] == ((36, 4), (32, 4), (16, 4))
    assert len(drafts.all) == 11
    assert Buckets.upto(300, 4, drafts=1).verified[-1] == 128
    with pytest.raises(ValueError, match="sizes"):
        Buckets((4, 2), 1)
    with pytest.raises(ValueError, match="pages"):
        Buckets((4,), 0)


MIXED = Plan(1, (
    Step("chunk", 3, 6, (7, 0, 4), False),
    Step("one", 4, 1, (2, 8), True),
    Step("drafts", 5, 3, (1, 3), True, 2),
    Step("two", 0, 1, (5,), False),
))  # fmt: skip
TOKENS = {name: list(range(100, 112)) for name in ("chunk", "one", "drafts", "two")}


def test_a_step_is_sent_as_one_piece():
    batch = CudaPaged(Gather(), CPU).batch(MIXED, TOKENS, SHAPE, CPU)
    assert batch.token_ids.tolist() == [104, *range(103, 109), *range(105, 108), 100]
    assert batch.positions.tolist() == [4, *range(3, 9), *range(5, 8), 0]
    assert batch.sampled == ("one", "drafts", "drafts", "drafts")
    assert batch.sampled_rows.tolist() == [0, 7, 8, 9]
    assert batch.slots.tolist() == [32, 31, 0, 1, 2, 3, 16, 13, 14, 15, 20]
    assert batch.bucket is None
    singles, others = batch.singles, batch.others
    assert singles.rows == (1,)
    assert singles.firsts.tolist() == [0, 1]
    assert singles.used.tolist() == [5]
    assert singles.ends.tolist() == [0, 5]
    assert singles.table.tolist() == [[2, 8, 9]]
    assert others.rows == (6, 3, 1)
    assert others.firsts.tolist() == [0, 6, 9, 10]
    assert others.used.tolist() == [9, 8, 1]
    assert others.ends.tolist() == [0, 9, 17, 18]
    assert others.table.tolist() == [[7, 0, 4], [1, 3, 9], [5, 9, 9]]
    assert singles.most_used == others.most_used == 12
    for pages in (singles, others):
        for part in (pages.firsts, pages.used, pages.ends, pages.table):
            assert part.dtype == torch.int32
            assert part.is_contiguous()
    start, size = batch.buffer.data_ptr(), batch.buffer.nbytes
    assert start <= others.ends.data_ptr() < start + size
    assert start == batch.token_ids.data_ptr()


def test_padding_repeats_a_token_on_the_page_that_nobody_owns():
    backend = CudaPaged(Gather(), CPU, Buckets((4, 8), 3))
    decodes = Plan(1, (Step("one", 4, 1, (2, 8), True), Step("two", 3, 1, (5,), True)))
    # Numbers of a larger step lie in the memory that is sent.
    for _ in range(3):
        backend.batch(MIXED, TOKENS, SHAPE, CPU)
    batch = backend.batch(decodes, TOKENS, SHAPE, CPU)
    assert batch.bucket == (4, 1)
    assert batch.others is None
    assert batch.token_ids.tolist() == [104, 103, 0, 0]
    assert batch.positions.tolist() == [4, 3, 0, 0]
    assert batch.slots.tolist() == [32, 23, 36, 37]
    assert batch.sampled == ("one", "two")
    assert batch.sampled_rows.tolist() == [0, 1, 2, 3]
    assert batch.singles.used.tolist() == [5, 4, 1, 1]
    assert batch.singles.table.tolist() == [[2, 8, 9], [5, 9, 9], [9, 9, 9], [9, 9, 9]]
    assert batch.singles.ends.tolist() == [0, 5, 9, 10, 11]
    blank = backend.blank(Bucket(4, 1), SHAPE)
    assert blank.buffer.shape == batch.buffer.shape
    assert blank.singles.used.tolist() == [1, 1, 1, 1]
    assert backend.batch(MIXED, TOKENS, SHAPE, CPU).bucket is None
    wide = Plan(1, (Step("one", 11, 1, (2, 8, 1), True),))
    assert CudaPaged(Gather(), CPU, Buckets((4,), 2)).batch(wide, TOKENS, SHAPE, CPU).bucket is None
    many = Plan(1, tuple(Step("one", 4, 1, (2, 8), True) for _ in range(9)))
    assert backend.batch(many, TOKENS, SHAPE, CPU).bucket is None
    with pytest.raises(ValueError, match="pads nothing"):
        CudaPaged(Gather(), CPU).blank(Bucket(4, 1), SHAPE)


def test_blocks_of_a_size_that_the_kernel_cannot_read_are_refused():
    with pytest.raises(ValueError, match=r"block_size must be a multiple of 256 .* got 4"):
        CudaPaged(Varlen(), CPU).pool(SHAPE, torch.float32, CPU)


@pytest.mark.parametrize("forward", [Llama, Transformers])
def test_padding_changes_no_logits_and_no_block(flash, cuda_model, forward):
    model = cuda_model(Varlen(), forward=forward)
    shape = replace(SHAPE, block_size=256)
    backends = (model.attention, model.attention.padded(Buckets((4, 8), 2)))
    pools = [backend.pool(shape, torch.float32, CPU) for backend in backends]
    torch.manual_seed(0)
    for part, other in zip(*(pool.parts for pool in pools), strict=True):
        part.normal_()
        other.copy_(part)
    lengths = {"a": 300, "b": 2, "c": 256, "d": 3, "e": 90}
    tokens = {name: [7 * i % 1000 for i in range(length)] for name, length in lengths.items()}
    tables = {"a": (8, 2), "b": (5,), "c": (1,), "d": (7,), "e": (0,)}
    plan = Plan(1, tuple(
        Step(name, length - 1, 1, tables[name], True) for name, length in lengths.items()
    ))  # fmt: skip
    logits = []
    for backend, pool in zip(backends, pools, strict=True):
        work = backend.batch(plan, tokens, shape, CPU)
        step = StepContext(pool, work, backend)
        with torch.inference_mode():
            logits.append(model.forward(work.token_ids, work.positions, work.sampled_rows, step))
    assert [len(x) for x in logits] == [5, 8]
    # Which product a matrix library takes depends on the rows: the last bits may differ.
    torch.testing.assert_close(logits[0], logits[1][:5], rtol=1e-4, atol=1e-4)
    for part, other in zip(*(pool.parts for pool in pools), strict=True):
        torch.testing.assert_close(
            part[: shape.num_blocks], other[: shape.num_blocks], rtol=1e-4, atol=1e-4
        )


WIDE = Buckets.upto(32, 60)
SMALL = replace(TIGHT, num_blocks=30)
#: FlashAttention 2 takes blocks of 256 tokens.
PAGES = replace(ROOMY, block_size=256, num_blocks=30)
FEW = replace(TIGHT, block_size=256, num_blocks=6, max_num_batched_tokens=700)


@pytest.mark.parametrize("config", [ROOMY, SMALL], ids=["roomy", "tight"])
@pytest.mark.parametrize("buckets", [None, WIDE], ids=["as it is", "padded"])
def test_gathered_pages_give_the_tokens_of_transformers(
    make_network, cuda_model, serve, config, buckets
):
    prompts = random_prompts(16, 1000, 1, 70)
    expected = reference(make_network(), prompts, 12)
    greedy = SamplingParams(max_tokens=12, temperature=0.0)
    kernel = Static() if buckets else Gather()
    served = serve(cuda_model(kernel, buckets), prompts, greedy, config)
    assert served.tokens == expected
    assert config is ROOMY or served.preemptions > 0


class Static(Gather):
    """As if a graph could hold it; steps that only decode are padded."""

    static = True


@pytest.mark.parametrize("forward", [Llama, Transformers])
def test_flash_attention_gives_the_tokens_of_transformers(
    flash, make_network, cuda_model, serve, forward
):
    prompts = random_prompts(7, 1000, 240, 256, seed=3)
    expected = reference(make_network(), prompts, 18)
    greedy = SamplingParams(max_tokens=18, temperature=0.0)
    served = serve(cuda_model(Varlen(), WIDE, forward), prompts, greedy, FEW)
    assert served.tokens == expected
    assert served.preemptions > 0
    assert served.mixed_steps > 0


class Watched(CudaPaged):
    """Remembers what steps were padded to."""

    def batch(self, *arguments):
        work = super().batch(*arguments)
        self.seen = [*getattr(self, "seen", ()), work.bucket]
        return work


@pytest.mark.parametrize("config", [PAGES, FEW], ids=["roomy", "tight"])
def test_drafts_are_verified_in_padded_steps(flash, make_network, cuda_model, serve, config):
    prompts = random_prompts(7, 1000, 240, 256, seed=3)
    expected = reference(make_network(), prompts, 18)
    backend = Watched(Varlen(), CPU, Buckets.upto(32, 2, drafts=4))
    model = replace(cuda_model(Varlen()), attention=backend)
    served = serve(
        model, prompts, SamplingParams(max_tokens=18, temperature=0.0),
        replace(config, cost=CostModel(0.01, 0.001, 0.001)),
        speculation=ALWAYS, drafter=unreliable(expected),
    )  # fmt: skip
    assert served.tokens == expected
    assert 0 < served.stats.accepted_tokens < served.stats.drafted_tokens
    assert {bucket.each for bucket in backend.seen if bucket} == {1, 5}
    assert None in backend.seen
    assert config is PAGES or served.preemptions > 0


def test_what_the_kernel_refuses_is_gathered(make_network, cuda_model, serve):
    class Choosy(Gather):
        def refuses(self, spec):
            return "everything"

        def __call__(self, *_):
            raise AssertionError("it refuses")

    prompts = random_prompts(3, 1000, 1, 30)
    expected = reference(make_network(), prompts, 3)
    greedy = SamplingParams(max_tokens=3, temperature=0.0)
    assert serve(cuda_model(Choosy()), prompts, greedy, ROOMY).tokens == expected


def test_a_graph_is_refused_what_is_not_static(cuda_model):
    model = cuda_model(Gather(), Buckets((2,), 2))
    pool = model.attention.pool(SHAPE, torch.float32, CPU)
    work = model.attention.blank(Bucket(2, 1), SHAPE)
    with pytest.raises(NotImplementedError, match="no graph can hold torch operators"):
        model.forward(work.token_ids, work.positions, work.sampled_rows,
                      StepContext(pool, work, model.attention))  # fmt: skip


def test_stacked_weights_take_no_memory_of_their_own(make_network):
    network = make_network()
    expected = network(torch.arange(9)[None]).logits
    before = network.model.layers[0].mlp.up_proj.weight.data_ptr()
    Llama(network, pack=False)
    attention, mlp = network.model.layers[0].self_attn, network.model.layers[0].mlp
    q, k = attention.q_proj.weight, attention.k_proj.weight
    assert k.data_ptr() == q.data_ptr() + q.nbytes
    assert mlp.up_proj.weight.data_ptr() == mlp.gate_proj.weight.data_ptr() + q.element_size() * (
        mlp.gate_proj.weight.numel()
    )
    assert mlp.up_proj.weight.data_ptr() != before
    torch.testing.assert_close(network(torch.arange(9)[None]).logits, expected)
