"""A request as the scheduler sees it: counts and a forecast, never text or a length limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from ranker.types import FinishReason, Forecast


class Status(Enum):
    """Where a request stands. Preempted requests are ``WAITING`` again."""

    WAITING = auto()
    RUNNING = auto()
    FINISHED = auto()


@dataclass(slots=True, eq=False)
class Request:
    """One generation. The scheduler that holds it is the only writer of the fields below the line.

    ``arrival`` is in seconds of the caller's clock. ``true_tokens`` is known to simulations only
    (policies ``sjf``); a request that is served leaves it ``None``. The token limit of a request
    is the sampler's business and deliberately absent: a policy cannot cheat with it.
    """

    id: str
    arrival: float
    prompt_tokens: int
    forecast: Forecast | None = None
    true_tokens: int | None = None
    tenant: str = ""
    # -- written by the scheduler ------------------------------------------------------------
    status: Status = Status.WAITING
    output_tokens: int = 0  #: sampled so far
    computed_tokens: int = 0  #: tokens whose keys and values are in the cache
    block_table: list[int] = field(default_factory=list)
    preemptions: int = 0
    first_scheduled: float | None = None  #: caller's clock, when it first entered a plan
    finish_reason: FinishReason | None = None

    @property
    def total_tokens(self) -> int:
        """Prompt and output so far; all but the newest must be computed before the next sample."""
        return self.prompt_tokens + self.output_tokens

    @property
    def pending_tokens(self) -> int:
        return self.total_tokens - self.computed_tokens
