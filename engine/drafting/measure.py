"""What drafts cost on this machine: verifying them, and a draft model's passes."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from itertools import accumulate
from statistics import median

from engine.core.plan import Plan, Step
from engine.drafting.drafter import Drafter, Wanted
from engine.executor import TorchExecutor
from engine.runner import Runner
from engine.sampling import SamplingParams
from engine.sequence import Sequence

#: Tokens of the steps that are timed, fewest first.
SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
_PROMPT = 16
#: Tokens that a request runs in a step of several: one, and drafts.
EACH = 4
_REPEATS = 5
_GREEDY = SamplingParams(temperature=0.0, ignore_eos=True)


class _Ones:
    """Guesses that cost nothing to make."""

    def propose(self, wanted: Seq[Wanted]) -> list[list[int]]:
        return [[1] * each.most for each in wanted]

    def forget(self, request_id: str) -> None:
        pass


def blocks_needed(most: int, block_size: int) -> int:
    """KV blocks that :func:`verify_steps` writes to."""
    return max(1, most // EACH) * _per_request(block_size)


def verify_steps(
    runner: Runner, most: int, clock: Callable[[], float]
) -> tuple[tuple[int, float], ...]:
    """``(tokens, seconds)`` of steps of up to ``most`` tokens that verify drafts, sampling
    included; seconds never fall. Must not run beside other work."""
    sizes = [size for size in SIZES if size <= most] or [1]
    executor = TorchExecutor(runner, _Ones())
    _time(executor, runner, sizes[-1], clock, repeats=1)  # warms up
    seconds = [_time(executor, runner, size, clock, _REPEATS) for size in sizes]
    return tuple(zip(sizes, accumulate(seconds, max), strict=True))


def draft_seconds(drafter: Drafter, batch: int, clock: Callable[[], float]) -> float:
    """Seconds that one more guess takes, for each of ``batch`` requests at once."""
    sequences = [Sequence.start(f"draft-{i}", [1] * _PROMPT, _GREEDY) for i in range(batch)]
    drafter.propose([Wanted(sequence, 1) for sequence in sequences])
    taken = []
    for _ in range(_REPEATS):
        start = clock()
        drafter.propose([Wanted(sequence, EACH) for sequence in sequences])
        taken.append((clock() - start) / EACH)
    for sequence in sequences:
        drafter.forget(sequence.id)
    return median(taken)


def _per_request(block_size: int) -> int:
    return -(-(_PROMPT + EACH) // block_size)


def _time(
    executor: TorchExecutor, runner: Runner, size: int, clock: Callable[[], float], repeats: int
) -> float:
    requests = max(1, size // EACH)
    drafts = size // requests - 1
    per_request = _per_request(runner.shape.block_size)
    names = [f"verify-{i}" for i in range(requests)]
    tables = {
        name: tuple(range(i * per_request, (i + 1) * per_request)) for i, name in enumerate(names)
    }
    try:
        for name in names:
            executor.add(name, [1] * _PROMPT, _GREEDY)
        executor.run(Plan(0, tuple(Step(name, 0, _PROMPT, tables[name], True) for name in names)))
        # The same step again and again: what it writes is never read behind its end.
        plan = Plan(
            0,
            tuple(Step(name, _PROMPT, 1 + drafts, tables[name], True, drafts) for name in names),
        )
        taken = []
        for _ in range(repeats):
            start = clock()
            executor.run(plan)
            taken.append(clock() - start)
        return median(taken)
    finally:
        for name in names:
            executor.remove(name)
