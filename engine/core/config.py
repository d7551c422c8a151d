"""Limits of one scheduler, composed of the choices of its parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from engine.core.costs import CostModel


class AdmissionMode(StrEnum):
    """What must hold of memory before a waiting request may run beside others."""

    OFF = "off"  #: its tokens fit now
    STATIC = "static"  #: they fit, and a share of the pool stays free
    PREDICTED = "predicted"  #: so will everybody's at the forecast peak


@dataclass(frozen=True, slots=True)
class AdmissionConfig:
    """Admission control. mode: a member, or its name.

    watermark: share of the pool kept free (``STATIC``), so that those running can grow before
    anybody is preempted. level: quantile of each answer's remaining length that ``PREDICTED``
    reckons with; higher is safer and admits later.
    """

    mode: AdmissionMode = AdmissionMode.STATIC
    watermark: float = 0.01
    level: float = 0.8

    def __post_init__(self) -> None:
        if self.mode not in list(AdmissionMode):
            raise ValueError(f"admission.mode must be off, static or predicted, got {self.mode!r}")
        # By name is as good; the scheduler compares members.
        object.__setattr__(self, "mode", AdmissionMode(self.mode))
        if not 0.0 <= self.watermark < 1.0:
            raise ValueError(f"admission.watermark must lie in [0, 1), got {self.watermark}")
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"admission.level must lie in (0, 1), got {self.level}")


class PreemptionMode(StrEnum):
    """How a victim's memory is taken."""

    AUTO = "auto"  #: whichever of the two costs less for this victim
    RECOMPUTE = "recompute"  #: drop it, and prefill prompt and output again
    SWAP = "swap"  #: move it to the host and back, while the host has room


@dataclass(frozen=True, slots=True)
class PreemptionConfig:
    """Preemption. mode: a member, or its name. max_stalls: times a request loses its memory before
    others are taken first.
    """

    mode: PreemptionMode = PreemptionMode.AUTO
    max_stalls: int = 3

    def __post_init__(self) -> None:
        if self.mode not in list(PreemptionMode):
            raise ValueError(f"preemption.mode must be auto, recompute or swap, got {self.mode!r}")
        object.__setattr__(self, "mode", PreemptionMode(self.mode))
        if self.max_stalls < 1:
            raise ValueError(f"preemption.max_stalls must be at least 1, got {self.max_stalls}")


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Limits of one scheduler.

    max_num_seqs: requests that run at once.
    max_num_batched_tokens: tokens of one step: decodes, drafts and prefill chunks together.
    block_size: tokens per KV block. num_blocks: KV blocks in the pool.
    max_waiting: requests that may wait in all lanes; one more is refused with ``QueueFull``.
    host_blocks: KV blocks on the host that victims can be swapped to; 0: none are.
    prefix_cache: keep full blocks of ended requests for others that begin alike.
    cost: what steps cost, for choices by cost; without it victims are taken last in order first
    and recomputed.

    Raises ``ValueError`` naming the field and the fix.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    num_blocks: int
    max_waiting: int = 100_000
    host_blocks: int = 0
    prefix_cache: bool = True
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    preemption: PreemptionConfig = field(default_factory=PreemptionConfig)
    cost: CostModel | None = None

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
        if self.host_blocks < 0:
            raise ValueError(f"host_blocks must be at least 0, got {self.host_blocks}")
        if self.preemption.mode is PreemptionMode.SWAP and not self.host_blocks:
            raise ValueError("preemption.mode swap needs host_blocks above 0")

    @property
    def capacity(self) -> int:
        """Tokens, prompt and output together, that one request can hold in the cache."""
        return self.num_blocks * self.block_size

    @property
    def reserved_blocks(self) -> int:
        """Blocks that ``STATIC`` admission keeps free."""
        if self.admission.mode is not AdmissionMode.STATIC:
            return 0
        return math.ceil(self.admission.watermark * self.num_blocks)
