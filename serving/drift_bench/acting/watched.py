"""Any policy, and somebody who is told when a request ends."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.policies.base import Key, Policy, Starvation
from engine.core.request import Request

#: A request, and when it ended.
Ended = Callable[[Request, float], None]


class Watched:
    """Orders as ``policy`` does; ``ended`` is called in the order in which requests end."""

    def __init__(self, policy: Policy, ended: Ended) -> None:
        self.name = policy.name
        self.preempts = policy.preempts
        #: As it was when nothing had been learned; :meth:`patience` says what it is.
        self.starvation = policy.starvation
        self._policy = policy
        self._ended = ended

    def arrived(self, request: Request) -> None:
        self._policy.arrived(request)

    def key(self, request: Request) -> Key:
        return self._policy.key(request)

    def rekey_after(self, request: Request) -> int | None:
        return self._policy.rekey_after(request)

    def patience(self, request: Request) -> Starvation | None:
        return self._policy.patience(request)

    def starved(self, request: Request) -> None:
        self._policy.starved(request)

    def observe(self, request: Request, now: float) -> None:
        self._policy.observe(request, now)
        self._ended(request, now)
