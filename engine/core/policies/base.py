"""The one thing a policy is: a key."""

from __future__ import annotations

from typing import Protocol

from engine.core.request import Request

Key = tuple[float, ...]


class Policy(Protocol):
    """Orders requests: the smaller key goes first.

    A key is computed when a request arrives or changes state and must not read a clock: a
    comparator that does leaves a heap stale (vllm PR 29366). Keys of one policy have one length.
    """

    name: str

    def arrived(self, request: Request) -> None:
        """Take note of a request, once, just before its first key is asked for."""
        ...

    def key(self, request: Request) -> Key:
        """Sort key of a waiting request."""
        ...

    def observe(self, request: Request, now: float) -> None:
        """Learn from a request that just ended; ``finish_reason`` says how.

        Policies that learn nothing do nothing.
        """
        ...


class Unlearning:
    """Base of policies that neither count arrivals nor learn from outcomes."""

    def arrived(self, request: Request) -> None:
        return None

    def observe(self, request: Request, now: float) -> None:
        return None
