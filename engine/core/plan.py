"""What one engine step will run: a frozen value that executors read and the scheduler commits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Step(NamedTuple):
    """One request's part of a step: run tokens ``[start, start + tokens)`` of prompt + output.

    ``block_table[i]`` holds positions ``[i * block_size, (i + 1) * block_size)``. When ``samples``
    is true the last known token is among these, so the executor samples the next. The last
    ``drafts`` of the tokens are guesses (speculative decoding): the executor proposes at most that
    many, verifies them, and tells how many it accepted.
    """

    request_id: str
    start: int
    tokens: int
    block_table: tuple[int, ...]
    samples: bool
    drafts: int = 0

    @property
    def decodes(self) -> bool:
        """One token, and drafts, at the end of a sequence that is computed up to there."""
        return self.samples and self.tokens == 1 + self.drafts and self.start > 0


class Move(NamedTuple):
    """Copy a whole block: from ``source`` to ``target``."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One step. ``number`` ascends; ``preempted`` gave up their slot and wait again.

    Before the steps the executor copies blocks, in this order: ``swap_out`` (device to host),
    ``swap_in`` (host to device), ``copies`` (device to device: copy on write). ``exhausted`` fill
    all memory alone and cannot grow: committing the plan ends them (``LENGTH``).
    """

    number: int
    steps: tuple[Step, ...]
    preempted: tuple[str, ...] = ()
    exhausted: tuple[str, ...] = ()
    swap_out: tuple[Move, ...] = ()
    swap_in: tuple[Move, ...] = ()
    copies: tuple[Move, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(step.tokens for step in self.steps)

    @property
    def prefill_tokens(self) -> int:
        return sum(step.tokens for step in self.steps if not step.decodes)

    @property
    def decode_tokens(self) -> int:
        return self.tokens - self.prefill_tokens

    @property
    def drafts(self) -> int:
        """Tokens that may be guesses."""
        return sum(step.drafts for step in self.steps)

    @property
    def swapped_blocks(self) -> int:
        """Blocks that cross the bus, either way."""
        return len(self.swap_out) + len(self.swap_in)

    def __bool__(self) -> bool:
        """Whether there is anything to run or to commit."""
        return bool(self.steps or self.exhausted or self.swap_out)
