"""How much of a GPU's memory is left for keys and values once all else has its own."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import torch

from engine.core.plan import Plan, Step
from engine.executor import TorchExecutor
from engine.models import Model
from engine.runner import Runner
from engine.sampling import SamplingParams

log = logging.getLogger(__name__)

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of a GPU. ``free``: beside the weights and whatever else uses the GPU; ``step``: what
    the largest step takes on top, for a while."""

    total: int
    free: int
    step: int

    def for_cache(self, share: float) -> int:
        """Bytes left for keys and values when all on this GPU together may take ``share`` of it,
        as ``gpu_memory_utilization`` of vLLM.

        Raises ``ValueError`` when nothing is left, with what to change.
        """
        left = int(share * self.total) - (self.total - self.free) - self.step
        if left <= 0:
            raise ValueError(
                f"gpu_memory_utilization: {share:g} of {self.total / _GIB:.1f} GiB leaves nothing "
                f"for the KV cache: {(self.total - self.free) / _GIB:.1f} GiB are taken by the "
                f"weights and by other programs, and a step takes {self.step / _GIB:.1f} GiB; "
                "raise it, lower max_num_batched_tokens or max_num_seqs, stop what else uses this "
                "GPU, or take a narrower dtype or a smaller model"
            )
        return left


def largest(
    max_num_seqs: int, max_num_batched_tokens: int, context_length: int, block_size: int
) -> tuple[Plan, int]:
    """A step with as many tokens and as many samples as there can be, and the tokens of each of
    its prompts. They all write the same blocks, numbered from 0: what they hold does not matter."""
    each = max(1, min(max_num_batched_tokens // max_num_seqs, context_length - 1))
    # Where prompts are short, one is longer, so that all tokens are there.
    rest = min(max_num_batched_tokens - each * (max_num_seqs - 1), context_length - 1)
    blocks = tuple(range(math.ceil(max(each, rest) / block_size)))
    lengths = [rest, *[each] * (max_num_seqs - 1)]
    steps = tuple(Step(str(i), 0, length, blocks, True) for i, length in enumerate(lengths))
    return Plan(0, steps), max(each, rest)


def measure(
    model: Model, max_num_seqs: int, max_num_batched_tokens: int, block_size: int
) -> Memory:
    """Run the largest step once, on the model's own GPU.

    Raises ``ValueError`` when not even that fits.
    """
    device = model.device
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    try:
        run_largest(model, max_num_seqs, max_num_batched_tokens, block_size)
        torch.cuda.synchronize(device)
    except torch.OutOfMemoryError as error:
        raise ValueError(
            f"max_num_batched_tokens: a step of {max_num_batched_tokens} tokens of "
            f"{max_num_seqs} requests does not fit {device} beside the weights; lower it or "
            "max_num_seqs, stop what else uses this GPU, or take a narrower dtype"
        ) from error
    step = torch.cuda.max_memory_allocated(device) - before
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    log.info(
        "%s: %.1f of %.1f GiB free beside the weights, the largest step takes %.2f",
        device, free / _GIB, total / _GIB, step / _GIB,
    )  # fmt: skip
    return Memory(total, free, step)


def run_largest(
    model: Model, max_num_seqs: int, max_num_batched_tokens: int, block_size: int
) -> None:
    """Run the :func:`largest` step, sampling as expensively as a request may ask for."""
    context = model.context_length
    plan, longest = largest(max_num_seqs, max_num_batched_tokens, context, block_size)
    shape = model.kv_shape(math.ceil(longest / block_size), block_size)
    executor = TorchExecutor(Runner(model, shape))
    for step in plan.steps:
        sampling = SamplingParams(max_tokens=1, temperature=1.0, top_p=0.9, top_k=100, seed=0)
        executor.add(step.request_id, [1] * step.tokens, sampling)
    executor.run(plan)
