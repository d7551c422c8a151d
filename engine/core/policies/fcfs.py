"""First come, first served."""

from __future__ import annotations

from engine.core.policies.base import Key, Unlearning
from engine.core.request import Request


class Fcfs(Unlearning):
    """Order of arrival. What every other policy is compared with and falls back to."""

    name = "fcfs"

    def key(self, request: Request) -> Key:
        return (request.arrival,)
