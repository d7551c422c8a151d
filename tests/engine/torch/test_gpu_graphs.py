"""Decode steps as CUDA graphs against the same steps without, and memory on a real GPU."""

import logging
import warnings
from dataclasses import replace

import pytest
import torch

from engine import cache_size
from engine.cache_size import Space
from engine.core.plan import Plan, Step
from engine.cuda import memory
from engine.cuda.graphs import Graphed
from engine.executor import TorchExecutor
from engine.runner import Runner
from engine.sampling import SamplingParams
from tests.engine.torch.gpu_parts import DEVICE, FEW, NEEDS_GPU, PAGES, SMOLLM2, TINY, needs_flash
from tests.engine.torch.reference import random_prompts

pytestmark = NEEDS_GPU
BF16 = {"dtype": torch.bfloat16}


@pytest.fixture
def smollm2(make_network, make_model):
    model = make_model(make_network(**SMOLLM2, **BF16), DEVICE)
    needs_flash(model)
    return model


def runners(model, seqs, blocks):
    """One that repeats graphs, and one that runs the same padded steps."""
    shape = model.kv_shape(blocks, cache_size.block_size(model))
    buckets = cache_size.buckets(model, seqs, shape.block_size, blocks, drafts=3)
    padded = replace(model, attention=model.attention.padded(buckets))
    return Runner(model, shape, buckets=buckets), Runner(padded, shape)


@pytest.mark.parametrize("seqs", [1, 3, 16])
def test_a_graph_gives_the_logits_of_its_steps(smollm2, record_property, seqs):
    graphed, eager = runners(smollm2, 16, 40)
    assert isinstance(graphed._forward, Graphed)
    size = graphed.shape.block_size
    prompts = random_prompts(seqs, 1000, size - 20, size + 20)
    tables = {name: (2 * i, 2 * i + 1) for i, name in enumerate(prompts)}
    fill = Plan(0, tuple(Step(n, 0, len(ids), tables[n], True) for n, ids in prompts.items()))
    for runner in (graphed, eager):
        runner.run(fill, prompts)
    off = 0.0
    for number in range(30):
        tokens = {n: ids + [5] * (number + 1) for n, ids in prompts.items()}
        steps = tuple(Step(n, len(i) + number, 1, tables[n], True) for n, i in prompts.items())
        (_, got), (_, expected) = (r.run(Plan(1, steps), tokens) for r in (graphed, eager))
        assert got.isfinite().all()
        scale = expected.float().abs().max()
        off = max(off, float((got.float() - expected.float()).abs().max() / scale))
    record_property("largest_difference", off)
    assert off < 1e-2


def test_a_graph_verifies_drafts_as_its_steps_do(smollm2, record_property):
    graphed, eager = runners(smollm2, 8, 24)
    size = graphed.shape.block_size
    prompts = random_prompts(8, 1000, size - 8, size + 8)
    tables = {name: (2 * i, 2 * i + 1) for i, name in enumerate(prompts)}
    fill = Plan(0, tuple(Step(n, 0, len(ids), tables[n], True) for n, ids in prompts.items()))
    tokens = {n: [*ids, 5, 6, 7, 8] for n, ids in prompts.items()}
    steps = tuple(
        Step(n, len(ids), 1 + i % 4, tables[n], True, i % 4)
        for i, (n, ids) in enumerate(prompts.items())
    )
    results = []
    for runner in (graphed, eager):
        runner.run(fill, prompts)
        names, logits = runner.run(Plan(1, steps), tokens)
        assert len(names) == len(logits) == 20
        results.append(logits.float())
    off = float((results[0] - results[1]).abs().max() / results[1].abs().max())
    record_property("largest_difference", off)
    assert off < 1e-2


@pytest.mark.parametrize("kind", [{"temperature": 0.0}, {"temperature": 0.8}, {
    "temperature": 0.8, "top_p": 0.9, "top_k": 50, "repetition_penalty": 1.1}],
    ids=["greedy", "drawn", "filtered"])  # fmt: skip
def test_a_step_waits_for_the_gpu_once(smollm2, kind):
    """For the tokens, which the next step needs."""
    graphed, _ = runners(smollm2, 4, 8)
    executor = TorchExecutor(graphed)
    for i, ids in enumerate(random_prompts(3, 1000, 30, 40).values()):
        sampling = SamplingParams(max_tokens=20, ignore_eos=True, seed=i, **kind)
        executor.add(str(i), ids, sampling)
        executor.run(Plan(0, (Step(str(i), 0, len(ids), (i,), True),)))

    def step():
        at = {str(i): len(executor.sequence(str(i)).tokens) - 1 for i in range(3)}
        executor.run(Plan(1, tuple(Step(n, p, 1, (int(n),), True) for n, p in at.items())))

    step()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    waits = [str(w.message) for w in caught if "synchroniz" in str(w.message)]
    assert len(waits) <= 1, waits


def test_a_step_that_is_a_graph_never_waits(smollm2):
    graphed, _ = runners(smollm2, 4, 8)
    prompts = random_prompts(3, 1000, 40, 60)
    steps = tuple(
        Step(n, len(ids) - 1, 1, (i,), True) for i, (n, ids) in enumerate(prompts.items())
    )
    graphed.run(Plan(0, steps), prompts)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for number in range(5):
            graphed.run(Plan(number, steps), prompts)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("config", [PAGES, FEW], ids=["roomy", "tight"])
def test_serving_by_graphs_gives_what_serving_without_gives(
    smollm2, serve, record_property, config
):
    prompts = random_prompts(24, SMOLLM2["vocab_size"], 200, 256, seed=5)
    size = cache_size.block_size(smollm2)
    config = replace(config, block_size=max(size, 256))
    buckets = cache_size.buckets(smollm2, config.max_num_seqs, config.block_size, config.num_blocks)
    padded = replace(smollm2, attention=smollm2.attention.padded(buckets))
    greedy = SamplingParams(max_tokens=70, temperature=0.0, ignore_eos=True)
    graphed = serve(smollm2, prompts, greedy, config, buckets=buckets)
    eager = serve(padded, prompts, greedy, config)
    same = sum(graphed.tokens[name] == eager.tokens[name] for name in prompts)
    record_property("same", f"{same} of {len(prompts)}")
    # The same kernels on the same numbers; cuBLAS may pick another algorithm while recording.
    assert same >= 22
    assert config.num_blocks > 20 or graphed.preemptions > 0


def test_recording_is_told(smollm2, caplog):
    with caplog.at_level(logging.INFO, logger="engine.cuda.graphs"):
        runners(smollm2, 4, 8)
    assert any("recorded, up to 16 rows, in" in line for line in caplog.messages)


def test_a_model_that_waits_for_the_gpu_runs_without_graphs(make_network, make_model, caplog):
    model = make_model(make_network(**TINY, **BF16), DEVICE)
    needs_flash(model)

    def waits(ids, positions, rows, step):
        assert positions.max().item() >= 0
        return model.forward(ids, positions, rows, step)

    runner, _ = runners(replace(model, forward=waits), 2, 4)
    assert any("CUDA graphs: off" in line for line in caplog.messages)
    # And what comes after a recording that failed is well.
    prompts = {"a": [5, 6, 7]}
    _, logits = runner.run(Plan(0, (Step("a", 2, 1, (0,), True),)), prompts)
    assert logits.isfinite().all()


def test_the_cache_takes_what_is_left(smollm2, record_property):
    size = cache_size.block_size(smollm2)
    found = memory.measure(smollm2, 32, 4096, size)
    record_property("step_gib", found.step / 2**30)
    assert 0 < found.step < found.total
    assert 0 < found.for_cache(1.0) < found.free
    share = (found.total - found.free + found.step) / found.total
    with pytest.raises(ValueError, match="gpu_memory_utilization"):
        found.for_cache(share * 0.99)
    blocks, _ = cache_size.blocks(smollm2, size, Space(share=1.0), 32, 4096)
    assert 0 < blocks <= 32 * (2048 // size) + 1


def test_a_step_that_does_not_fit_says_what_to_lower(smollm2):
    torch.cuda.empty_cache()
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 2**26) / total)
    try:
        with pytest.raises(ValueError, match=r"max_num_batched_tokens: .* lower it"):
            memory.measure(smollm2, 64, 65536, cache_size.block_size(smollm2))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
