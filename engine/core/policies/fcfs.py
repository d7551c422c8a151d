"""First come, first served."""

from __future__ import annotations

from engine.core.policies.base import Key, Static
from engine.core.request import Request


class Fcfs(Static):
    """Order of arrival. What every other policy is compared with and falls back to."""

    name = "fcfs"

    def key(self, request: Request) -> Key:
        return (request.arrival,)
