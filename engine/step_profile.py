"""Where the time of a step goes: seconds by kind of operator."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from engine.attention.interface import StepContext
from engine.core.plan import Plan, Step
from engine.models import Model
from engine.native.program import Program
from engine.readings import Reading

_NAME = "engine_step_seconds"


@dataclass(frozen=True, slots=True)
class StepShape:
    """``sequences`` that have ``context`` tokens each and run ``tokens`` more: 1 is a decode step,
    with a context of 0 it is prefill."""

    sequences: int
    context: int = 0
    tokens: int = 1
    block_size: int = 32

    def __post_init__(self) -> None:
        for name, least in (("sequences", 1), ("context", 0), ("tokens", 1), ("block_size", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"step.{name} must be >= {least}, got {getattr(self, name)}")


def profile_step(
    model: Model,
    shape: StepShape,
    *,
    repeats: int = 10,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Reading]:
    """``engine_step_seconds`` by ``operator``, medians of ``repeats`` steps, of which ``total`` is
    the whole with its preparation.

    Raises ``ValueError`` when the model isn't run by compiled kernels, which alone know.
    """
    forward = model.forward
    if not isinstance(forward, Program):
        raise ValueError("model: only a model that compiled kernels run tells where its time goes")
    end = shape.context + shape.tokens
    blocks = -(-end // shape.block_size)
    cache = model.kv_shape(blocks * shape.sequences, shape.block_size)
    pool = model.attention.pool(cache, model.dtype, model.device)
    steps = tuple(
        Step(
            str(i),
            shape.context,
            shape.tokens,
            tuple(range(blocks * i, blocks * (i + 1))),
            samples=True,
        )
        for i in range(shape.sequences)
    )
    vocabulary = model.config.vocab_size
    tokens = {step.request_id: [(7 * i) % vocabulary for i in range(end)] for step in steps}
    runs: list[dict[str, float]] = []
    with torch.inference_mode():
        for number in range(1 + repeats):  # the first finds cold caches
            began = clock()
            batch = model.attention.batch(Plan(number, steps), tokens, cache, model.device)
            context = StepContext(pool, batch, model.attention)
            run = forward.timed(batch.sampled_rows, context)
            runs.append(run | {"total": clock() - began})
    return [
        Reading(_NAME, median(run[name] for run in runs[1:]), (("operator", name),))
        for name in runs[0]
    ]
