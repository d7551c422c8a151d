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

    def key(self, request: Request) -> Key:
        """Sort key of a waiting request."""
        ...

    def observe(self, request: Request, now: float) -> None:
        """Learn from a request that just finished. Policies that learn nothing do nothing."""
        ...
