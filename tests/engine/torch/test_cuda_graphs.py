"""Decode steps with buffers that stay where they are, as graphs need them; on a CPU.

What records graphs is exchanged for what computes anew, from and into the same memory.
"""

from dataclasses import replace

import pytest
import torch

from engine.attention.cuda import CudaPaged
from engine.attention.interface import NAME, StepContext
from engine.attention.pool import KVShape
from engine.core.plan import Plan, Step
from engine.cuda.buckets import Buckets
from engine.cuda.graphs import Graphed
from engine.cuda.varlen import Varlen
from engine.forward import Transformers
from engine.llama import Llama
from tests.engine.torch.cuda_parts import Rerun, Static, flash_attention_on_cpu

CPU = torch.device("cpu")
SHAPE = KVShape(layers=3, kv_heads=3, head_dim=16, num_blocks=9, block_size=256)
TOKENS = {name: [(7 * i + len(name)) % 1000 for i in range(400)] for name in ("a", "bb", "ccc")}
TABLES = {"a": (8, 2), "bb": (5, 1), "ccc": (0, 3)}


def decode(**positions):
    return Plan(1, tuple(Step(n, at, 1, TABLES[n], True) for n, at in positions.items()))


class Setting:
    """A tiny model with pages, and with the graphs of two sizes."""

    def __init__(self, network, forward):
        if forward is Transformers:
            network.set_attn_implementation(NAME)
        self.plain = (
            Transformers(network) if forward is Transformers else Llama(network, pack=False)
        )
        self.attention = CudaPaged(Varlen(), CPU, Buckets((1, 4), 2, 2, (2, 8)))
        self.pool = self.attention.pool(SHAPE, torch.float32, CPU)
        torch.manual_seed(0)
        for part in self.pool.parts:
            part.normal_()
        self.graphed = Graphed(self.plain, self.attention, self.pool, Rerun())

    def run(self, forward, plan):
        work = self.attention.batch(plan, TOKENS, SHAPE, CPU)
        step = StepContext(self.pool, work, self.attention)
        logits = forward(work.token_ids, work.positions, work.sampled_rows, step)
        return logits[: len(work.sampled)], work, logits


@pytest.fixture(params=[Llama, Transformers])
def setting(request, make_network):
    from transformers import AttentionInterface

    from engine.attention.interface import paged_attention

    AttentionInterface.register(NAME, paged_attention)
    with flash_attention_on_cpu(), torch.inference_mode():
        yield Setting(make_network(), request.param)


def test_a_graph_gives_what_its_steps_give(setting):
    assert setting.graphed.buckets == ((8, 3), (4, 1), (2, 3), (1, 1))
    for plan in (decode(a=300, bb=90, ccc=256), decode(bb=91), decode(a=301, ccc=257)):
        # Graphs write the same keys and values, so the order does not matter.
        expected, _, _ = setting.run(setting.plain, plan)
        got, work, _ = setting.run(setting.graphed, plan)
        assert work.bucket.each == 1
        torch.testing.assert_close(got, expected, rtol=0, atol=0)


def test_a_step_with_drafts_is_a_graph_too(setting):
    decodes = decode(a=300, bb=90).steps
    drafts = Step("ccc", 254, 3, TABLES["ccc"], True, 2)
    for steps in ((*decodes, drafts), (drafts,), (*decodes, drafts._replace(tokens=2, drafts=1))):
        expected, _, _ = setting.run(setting.plain, Plan(1, steps))
        got, work, _ = setting.run(setting.graphed, Plan(1, steps))
        assert work.bucket == (8, 3)
        assert len(got) == sum(step.tokens for step in steps)
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
        unpadded = setting.attention.padded(Buckets((), 2)).batch(
            Plan(1, steps), TOKENS, SHAPE, CPU
        )
        step = StepContext(setting.pool, unpadded, setting.attention)
        alone = setting.plain(unpadded.token_ids, unpadded.positions, unpadded.sampled_rows, step)
        torch.testing.assert_close(got, alone, rtol=1e-3, atol=1e-3)


def test_steps_with_prompts_or_too_many_sequences_run_as_they_are(setting):
    chunk = Step("bb", 60, 40, TABLES["bb"], True)
    plan = replace(decode(a=300), steps=(*decode(a=300).steps, chunk))
    expected, _, _ = setting.run(setting.plain, plan)
    got, work, _ = setting.run(setting.graphed, plan)
    assert work.bucket is None
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    many = Plan(1, tuple(Step("a", at, 1, TABLES["a"], True) for at in range(300, 305)))
    assert setting.run(setting.graphed, many)[1].bucket is None


def test_memory_stays_where_it_is(setting):
    batch = setting.graphed._graphs[4, 1].batch
    fields = (
        "token_ids", "positions", "sampled_rows", "slots", "buffer",
        *(f"singles.{name}" for name in ("firsts", "used", "ends", "table")),
    )  # fmt: skip

    def addresses():
        found = []
        for field in fields:
            part = batch
            for name in field.split("."):
                part = getattr(part, name)
            found.append(part.data_ptr())
        return [*found, *(part.data_ptr() for part in setting.pool.parts)]

    before, outputs = addresses(), set()
    for at in range(300, 304):
        _, work, logits = setting.run(setting.graphed, decode(a=at, bb=at, ccc=at - 5))
        outputs.add(logits.data_ptr())
        assert batch.token_ids.tolist() == work.token_ids.tolist()
        assert batch.singles.used.tolist() == [at + 1, at + 1, at - 4, 1]
    assert addresses() == before
    assert len(outputs) == 1


def test_a_step_asks_the_device_nothing(setting):
    work = setting.attention.batch(decode(a=300, bb=90), TOKENS, SHAPE, CPU)
    step = StepContext(setting.pool, work, setting.attention)

    # What stands for the kernel is no part of the step; it is compared elsewhere.
    def nothing(q, *_, **__):
        return tuple(q.clone() for _ in range(5))

    with flash_attention_on_cpu(nothing), Static():
        logits = setting.plain(work.token_ids, work.positions, work.sampled_rows, step)
    assert len(logits) == 4


@pytest.mark.parametrize(
    "asks",
    [
        lambda x: x.sum().item(),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: x + torch.tensor(1.0),
        lambda x: bool(x.sum() > 0),
    ],
)
def test_what_would_ask_is_noticed(asks):
    with pytest.raises(AssertionError), Static():
        asks(torch.ones(3))


def test_a_model_that_cannot_be_recorded_says_so(setting):
    class Refusing:
        def record(self, work):
            raise RuntimeError("called a synchronizing CUDA operation")

    with pytest.raises(RuntimeError, match="synchronizing"):
        Graphed(setting.plain, setting.attention, setting.pool, Refusing())
