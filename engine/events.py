"""What a generation tells whoever asked for it. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from engine.pace import Pace
from engine.token import Token
from ranker.types import FinishReason


class Overloaded(Exception):
    """As many requests wait as may wait; try again in ``retry_after`` seconds, if that is known."""

    def __init__(
        self, message: str = "the queue is full", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Dead(Exception):
    """The engine is draining or has stopped, and takes no more requests."""


class InUse(ValueError):
    """The id belongs to a request that has not ended, or that the engine has yet to forget."""


@dataclass(frozen=True, slots=True)
class LaneInfo:
    """A lane that requests may name. ``priorities``: whether it orders by their priority."""

    name: str
    priorities: bool = False


@dataclass(frozen=True, slots=True)
class Tokens:
    """New tokens. ``text`` may be empty while a multi-byte character is incomplete.

    ``prompt``: the prompt's tokens with their log probabilities, in the first event of a request
    that asks for them.
    """

    text: str = field(repr=False)
    tokens: tuple[Token, ...] = field(repr=False)
    prompt: tuple[Token, ...] = field(default=(), repr=False)

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(token.id for token in self.tokens)


class Latencies(NamedTuple):
    """Of one request, in seconds of the engine's clock; ``tpot`` is ``None`` below two tokens."""

    ttft: float
    tpot: float | None
    e2el: float


class Phases(NamedTuple):
    """Where the time of a request went after it was first scheduled: to its first token, from
    there to its end, and both; seconds of the engine's clock."""

    prefill: float
    decode: float
    inference: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The last event. ``queue_seconds``: from arrival to the first time it was scheduled.

    ``output_tokens`` counts the end-of-sequence token where one ended the answer, ``cached_tokens``
    those of the prompt that another request had computed, ``preemptions`` the slots it lost.
    ``stop``: the stop text or stop token that ended it, ``None`` at an end-of-sequence token.
    ``latencies`` end where the engine hands tokens over; they and ``pace`` are ``None`` when there
    was no token.
    """

    reason: FinishReason
    prompt_tokens: int
    output_tokens: int
    scored: bool
    queue_seconds: float
    preemptions: int
    cached_tokens: int = 0
    lane: str = ""
    latencies: Latencies | None = None
    pace: Pace | None = None
    stop: str | int | None = field(default=None, repr=False)

    @property
    def phases(self) -> Phases | None:
        """``None`` when there was no token."""
        if self.latencies is None:
            return None
        ttft, _, e2el = self.latencies
        prefill, decode = max(0.0, ttft - self.queue_seconds), e2el - ttft
        return Phases(prefill, decode, prefill + decode)


Event = Tokens | Ended
