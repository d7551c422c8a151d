"""A request as the scheduler sees it: counts, hashes and a forecast, never text or a limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ranker.types import FinishReason, Forecast


class Status(Enum):
    """Where a request stands. Preempted requests are ``WAITING`` again, with or without memory."""

    WAITING = auto()
    RUNNING = auto()
    FINISHED = auto()


@dataclass(slots=True, eq=False)
class Request:
    """One generation. The scheduler that holds it is the only writer of the fields below the line.

    ``arrival`` is in seconds of the caller's clock. ``true_tokens`` is known to simulations only
    (policies ``sjf`` and ``srpt``); a request that is served leaves it ``None``. The token limit of
    a request is the sampler's business and deliberately absent: a policy cannot cheat with it.

    ``block_hashes[i]`` identifies the content of tokens ``[0, (i + 1)·block_size)``, prompt and
    output: a chain, so that equal hashes mean equal prefixes. The caller may append to it as tokens
    become known. Left empty, nothing of the request is shared.
    """

    id: str
    arrival: float
    prompt_tokens: int
    forecast: Forecast | None = None
    true_tokens: int | None = None
    tenant: str = ""
    lane: str = ""  #: name of a lane; "" is the first one
    priority: int = 0  #: class, lower first; policy ``priority`` alone reads it
    block_hashes: Sequence[int] = ()
    # -- written by the scheduler ------------------------------------------------------------
    status: Status = Status.WAITING
    output_tokens: int = 0  #: sampled so far
    computed_tokens: int = 0  #: tokens whose keys and values are in the cache, or on the host
    block_table: tuple[int, ...] = ()  #: blocks of the device; waiting requests may keep theirs
    host_blocks: tuple[int, ...] = ()  #: blocks of the host, while swapped out
    cached_tokens: int = 0  #: prompt tokens found in the prefix cache when first admitted
    preemptions: int = 0  #: times it lost its slot
    evictions: int = 0  #: times it lost its memory
    first_scheduled: float | None = None  #: caller's clock, when it first entered a plan
    finish_reason: FinishReason | None = None

    @property
    def trusted(self) -> Forecast | None:
        """The forecast, for an order that takes all of it or nothing: with trust below a half it
        is none. Memory and charges go by ``forecast``, which is the best there is."""
        forecast = self.forecast
        return forecast if forecast is not None and forecast.trust >= 0.5 else None

    @property
    def total_tokens(self) -> int:
        """Prompt and output so far; all but the newest must be computed before the next sample."""
        return self.prompt_tokens + self.output_tokens

    @property
    def prefills(self) -> bool:
        """Whether it has no token of its own yet, or lacks more than the newest one."""
        return not self.output_tokens or self.total_tokens > self.computed_tokens + 1

    @property
    def pending_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens - self.computed_tokens

    def check_new(self, capacity: int) -> None:
        """Raise ``ValueError`` unless it is new, and ``capacity`` tokens hold it and one more."""
        if self.status is not Status.WAITING or self.output_tokens or self.computed_tokens:
            raise ValueError(f"request {self.id!r} is not new; build a Request per generation")
        if self.prompt_tokens < 1:
            raise ValueError(f"request.prompt_tokens must be at least 1, is {self.prompt_tokens}")
        if not math.isfinite(self.arrival):
            raise ValueError(f"request.arrival must be finite seconds, got {self.arrival}")
        if self.prompt_tokens + 1 > capacity:
            raise ValueError(
                f"request.prompt_tokens is {self.prompt_tokens}, but prompt and answer together "
                f"can hold {capacity} tokens; shorten the prompt or add KV blocks"
            )
