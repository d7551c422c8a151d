"""What a scheduler counts, from its start."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.core.memory import MemoryStats


@dataclass(slots=True)
class SchedulerStats:
    """Counters that only grow.

    preempted_for_memory: requests that lost a slot and their blocks because others had to grow.
    preempted_for_order: that gave their slot to one with a smaller key. preempted_for_lane: that
    gave back a slot their lane had been lent. evicted_paused: of the last two, those whose blocks
    were taken later while they waited. recomputed_tokens: computed a second time.
    swapped_tokens: moved between device and host, each way counted. drafts: times that tokens were
    proposed for a request; drafted_tokens and accepted_tokens: how many, and how many stood.
    """

    preempted_for_memory: int = 0
    preempted_for_order: int = 0
    preempted_for_lane: int = 0
    evicted_paused: int = 0
    recomputed_tokens: int = 0
    swapped_tokens: int = 0
    drafts: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    memory: MemoryStats = field(default_factory=MemoryStats)

    @property
    def acceptance(self) -> float:
        """Share of the proposed drafts that stood; 0 before the first."""
        return self.accepted_tokens / self.drafted_tokens if self.drafted_tokens else 0.0

    @property
    def preemptions(self) -> int:
        """Times that any request lost its slot."""
        return self.preempted_for_memory + self.preempted_for_order + self.preempted_for_lane
