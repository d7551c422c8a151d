"""Time steps and swaps of an executor, so that a cost model can be fitted to this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import Protocol

from engine.core.config import SchedulerConfig
from engine.core.plan import Move, Plan
from engine.core.policies import Fcfs
from engine.core.request import Request
from engine.core.scheduler import Scheduler
from engine.costs import Fit, MeasuredStep, fit
from engine.sampling import SamplingParams
from ranker.types import FinishReason

#: Blocks swapped at once when their way is timed, and how often.
_SWAPPED, _SWAPS = 16, 5


class Executor(Protocol):
    """What is timed; :class:`engine.executor.TorchExecutor` is one."""

    def add(self, request_id: str, prompt_ids: Sequence[int], sampling: SamplingParams) -> None: ...

    def remove(self, request_id: str) -> None: ...

    def run(self, plan: Plan) -> object: ...


def profile(
    executor: Executor,
    config: SchedulerConfig,
    clock: Callable[[], float],
    *,
    prompts: Sequence[int] = (16, 128),
    decodes: int = 6,
    token: int = 1,
) -> Fit:
    """Run small batches up to all slots and fit a cost model to their steps.

    Batches of 1, a quarter, half and all of the slots, with prompts of each given number of
    tokens (``token``, repeated), each of ``decodes`` decode steps; the first run, which warms up,
    is not counted. Where the configuration has host blocks, blocks are swapped out and in, too.
    ``clock`` gives seconds. Leaves nothing behind in the executor, and must not run beside other
    work. Raises ``ValueError`` when no prompt fits the KV pool.
    """
    slots = config.max_num_seqs
    batches = sorted({max(1, slots * part // 4) for part in (1, 2, 4)} | {1})
    fitting = [size for size in prompts if size + decodes + 1 < config.capacity]
    if not fitting:
        raise ValueError(f"prompts must fit a KV pool of {config.capacity} tokens, got {prompts}")
    _run(executor, config, clock, batches[0], fitting[0], decodes, token)
    measured: list[MeasuredStep] = []
    for size in fitting:
        for batch in batches:
            measured += _run(executor, config, clock, batch, size, decodes, token)
    found = fit(measured)
    if config.host_blocks:
        swap = _swap(executor, config, clock)
        found = replace(found, cost=replace(found.cost, swap=swap))
    return found


def _swap(executor: Executor, config: SchedulerConfig, clock: Callable[[], float]) -> float:
    """Seconds that one token's keys and values take, one way."""
    blocks = range(min(_SWAPPED, config.host_blocks, config.num_blocks))
    moves = tuple(Move(block, block) for block in blocks)
    seconds: list[float] = []
    for number in range(1 + _SWAPS):
        start = clock()
        executor.run(Plan(2 * number, (), swap_out=moves))
        executor.run(Plan(2 * number + 1, (), swap_in=moves))
        seconds.append(clock() - start)
    # The first touches memory that was only promised until then.
    return median(seconds[1:]) / (2 * len(moves) * config.block_size)


def _run(
    executor: Executor,
    config: SchedulerConfig,
    clock: Callable[[], float],
    batch: int,
    prompt: int,
    decodes: int,
    token: int,
) -> list[MeasuredStep]:
    scheduler = Scheduler(config, Fcfs())
    names = [f"profile-{i}" for i in range(batch)]
    sampling = SamplingParams(max_tokens=decodes + 1, ignore_eos=True, seed=0)
    measured: list[MeasuredStep] = []
    try:
        for name in names:
            executor.add(name, [token] * prompt, sampling)
            scheduler.add(Request(name, 0.0, prompt))
        while plan := scheduler.schedule(0.0):
            start = clock()
            executor.run(plan)
            measured.append(_measured(plan, clock() - start))
            done = {
                name: FinishReason.LENGTH
                for name in names
                if (request := scheduler.get(name)) and request.output_tokens >= decodes
                if any(step.request_id == name and step.samples for step in plan.steps)
            }
            scheduler.commit(plan, done, 0.0)
    finally:
        for name in names:
            executor.remove(name)
    return measured


def _measured(plan: Plan, seconds: float) -> MeasuredStep:
    context = sum(step.start + 1 for step in plan.steps if step.decodes)
    return MeasuredStep(plan.decode_tokens, plan.prefill_tokens, context, seconds)
