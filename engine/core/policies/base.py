"""The one thing a policy is: a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.core.request import Request

Key = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Starvation:
    """How long a request waits in one go before its policy is told: steps or seconds, not both."""

    steps: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.seconds is None):
            raise ValueError("starvation must be given in steps or in seconds, not both")
        for name in ("steps", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"starvation.{name} must be above 0, got {value}")


class Policy(Protocol):
    """Orders requests: the smaller key goes first.

    A key is computed when a request arrives or its state changes, from that state alone, and must
    not read a clock: a comparator that does leaves a heap stale (vllm PR 29366). Keys of one policy
    have one length.
    """

    name: str
    #: Whether a waiting request takes the slot of a running one whose key is larger.
    preempts: bool
    #: When :meth:`starved` is called; ``None``: never.
    starvation: Starvation | None

    def arrived(self, request: Request) -> None:
        """Take note of a request, just before its first key is asked for, and again when it gets
        another forecast."""
        ...

    def key(self, request: Request) -> Key:
        """Sort key of a request, from its state as it is now."""
        ...

    def rekey_after(self, request: Request) -> int | None:
        """Output tokens after which a running request is to be keyed anew, at least 1.

        Asked whenever it is keyed; ``None`` when its key stands for as long as it runs. A request
        that stops running, is resumed, or gets another forecast is keyed anew in any case.
        """
        ...

    def patience(self, request: Request) -> Starvation | None:
        """``starvation`` for this request, asked when it begins to wait; the unit is the same."""
        ...

    def starved(self, request: Request) -> None:
        """It has waited for its patience since it arrived or last ran; a new key is asked for."""
        ...

    def observe(self, request: Request, now: float) -> None:
        """Learn from a request that just ended; ``finish_reason`` says how.

        Called once for each request that arrived, in whatever lane it ends: the place to forget
        what is kept of it.
        """
        ...


class Static:
    """Base of policies whose keys stand, that preempt nobody and learn nothing."""

    preempts = False
    starvation: Starvation | None = None

    def arrived(self, request: Request) -> None:
        return None

    def rekey_after(self, request: Request) -> int | None:
        return None

    def patience(self, request: Request) -> Starvation | None:
        return self.starvation

    def starved(self, request: Request) -> None:
        return None

    def observe(self, request: Request, now: float) -> None:
        return None
