"""Strict classes."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.policies.base import Key, Static
from engine.core.request import Request


@dataclass(frozen=True, slots=True)
class PriorityConfig:
    """preempts: whether a waiting request takes the slot of a running one of a lower class."""

    preempts: bool = False


class Priority(Static):
    """Lower ``request.priority`` first, first come, first served within a class: the policy
    ``priority`` of vLLM and the field of that name in its and SGLang's APIs. A class that keeps
    the engine busy starves those after it; a lane's maximum wait bounds that.
    """

    name = "priority"

    def __init__(self, config: PriorityConfig | None = None) -> None:
        self.config = config or PriorityConfig()
        self.preempts = self.config.preempts

    def key(self, request: Request) -> Key:
        return (float(request.priority), request.arrival)
