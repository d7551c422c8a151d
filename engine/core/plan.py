"""What one engine step will run: a frozen value that executors read and the scheduler commits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One request's part of a step: run tokens ``[start, start + count)`` of prompt + output.

    ``block_table[i]`` holds positions ``[i * block_size, (i + 1) * block_size)``. When ``samples``
    is true the last of these tokens is the newest known one, so the executor samples the next.
    """

    request_id: str
    start: int
    count: int
    block_table: tuple[int, ...]
    samples: bool

    @property
    def decodes(self) -> bool:
        """One token at the end of a sequence that has been computed up to there."""
        return self.samples and self.count == 1 and self.start > 0


@dataclass(frozen=True, slots=True)
class Plan:
    """One step. ``number`` ascends; ``preempted`` lost their blocks and wait again.

    ``exhausted`` fill all memory alone and cannot grow: committing the plan ends them (``LENGTH``).
    """

    number: int
    steps: tuple[Step, ...]
    preempted: tuple[str, ...] = ()
    exhausted: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(step.count for step in self.steps)

    @property
    def prefill_tokens(self) -> int:
        return sum(step.count for step in self.steps if not step.decodes)

    @property
    def decode_tokens(self) -> int:
        return self.tokens - self.prefill_tokens

    def __bool__(self) -> bool:
        """Whether there is anything to run or to commit."""
        return bool(self.steps or self.exhausted)
