"""Limits of one scheduler."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Limits of one scheduler.

    max_num_seqs: requests that run at once.
    max_num_batched_tokens: tokens of one step, decodes and prefill chunks together.
    block_size: tokens per KV block. num_blocks: KV blocks in the pool.
    max_waiting: requests that may wait; one more is refused with ``QueueFull``.
    watermark: share of the pool kept free when a request is admitted beside others, so that those
    running can grow before anybody has to be preempted.

    Raises ``ValueError`` naming the field and the fix.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    num_blocks: int
    max_waiting: int = 100_000
    watermark: float = 0.01

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "block_size", "num_blocks", "max_waiting"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.max_num_batched_tokens < self.max_num_seqs:
            # Each running request decodes one token per step, so fewer could not all advance.
            raise ValueError(
                f"max_num_batched_tokens must be at least max_num_seqs ({self.max_num_seqs}), "
                f"got {self.max_num_batched_tokens}"
            )
        if not 0.0 <= self.watermark < 1.0:
            raise ValueError(f"watermark must lie in [0, 1), got {self.watermark}")

    @property
    def capacity(self) -> int:
        """Tokens, prompt and output together, that one request can hold in the cache."""
        return self.num_blocks * self.block_size

    @property
    def reserved_blocks(self) -> int:
        return math.ceil(self.watermark * self.num_blocks)
