"""Speeds of this GPU, for somebody to read: no assertion on time."""

import time

import pytest
import torch

from engine import cache_size
from engine.core.plan import Plan, Step
from engine.executor import TorchExecutor
from engine.runner import Runner
from engine.sampling import SamplingParams
from tests.engine.torch.gpu_parts import DEVICE, NEEDS_GPU, SMOLLM2
from tests.engine.torch.reference import random_prompts

pytestmark = NEEDS_GPU
#: Random weights need not disagree here, and flat logits cost the sampler the most.
MODEL = SMOLLM2 | {"initializer_range": 0.02}


@pytest.fixture(scope="module")
def models():
    """Made once, for all speeds."""
    return {}


@pytest.fixture
def model(models, make_network, make_model):
    if not models:
        models["one"] = make_model(make_network(**MODEL, dtype=torch.bfloat16), DEVICE)
    return models["one"]


@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "sampled"])
@pytest.mark.parametrize("graphs", [True, False], ids=["graphs", "eager"])
@pytest.mark.parametrize("batch", [1, 16, 64])
def test_speed_of_decode(model, record_property, batch, graphs, sampled):
    context, steps = 256, 60
    size = cache_size.block_size(model)
    each = -(-(context + steps + 10) // size)
    shape = model.kv_shape(batch * each, size)
    buckets = cache_size.buckets(model, batch, size, each) if graphs else None
    executor = TorchExecutor(Runner(model, shape, buckets=buckets))
    tables = [tuple(range(i * each, (i + 1) * each)) for i in range(batch)]
    for i, ids in enumerate(random_prompts(batch, 1000, context, context).values()):
        temperature = 0.7 if sampled else 0.0
        executor.add(str(i), ids, SamplingParams(seed=i, temperature=temperature, top_p=0.9))
        executor.run(Plan(0, (Step(str(i), 0, context, tables[i], True),)))
    begun = 0.0
    for number in range(steps + 5):
        if number == 5:
            begun = time.perf_counter()
        at = context + number
        plan = tuple(Step(str(i), at, 1, table, True) for i, table in enumerate(tables))
        assert len(executor.run(Plan(number, plan))) == batch
    # Each step ends with a copy to the host, so nothing is left in flight.
    seconds = time.perf_counter() - begun
    record_property("attention", model.attention.kernel.name)
    record_property("tokens_per_second", round(batch * steps / seconds, 1))
    record_property("ms_per_step", round(seconds / steps * 1000, 3))


@pytest.mark.parametrize(("prompts", "length"), [(1, 2000), (8, 1000), (64, 128)])
def test_speed_of_prefill(model, record_property, prompts, length):
    size = cache_size.block_size(model)
    each = -(-length // size)
    runner = Runner(model, model.kv_shape(prompts * each, size))
    tokens = random_prompts(prompts, 1000, length, length)
    plan = Plan(0, tuple(
        Step(name, 0, length, tuple(range(i * each, (i + 1) * each)), True)
        for i, name in enumerate(tokens)
    ))  # fmt: skip
    for _ in range(2):
        runner.run(plan, tokens)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(5):
        _, logits = runner.run(plan, tokens)
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - begun) / 5
    record_property("tokens_per_second", round(prompts * length / seconds, 1))
    assert logits.isfinite().all()
