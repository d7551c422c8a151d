"""Shortest remaining processing time with true lengths: the oracle that preempts."""

from __future__ import annotations

from engine.core.policies.base import Key, Static
from engine.core.policies.granularity import Granularity
from engine.core.policies.size import Size
from engine.core.policies.sjf import true_tokens
from engine.core.request import Request


class Srpt(Static):
    """Least true work to come first, for simulation only. Optimal for mean latency on one server
    when preemption costs nothing (Schrage 1968). Here it costs what has to be computed again,
    which counts as work to come.
    """

    name = "srpt"
    preempts = True

    def __init__(self, config: Granularity | None = None, size: Size | None = None) -> None:
        self.config = config or Granularity()
        self._size = size or Size()

    def key(self, request: Request) -> Key:
        """Raises ``ValueError`` when the true length is not known."""
        done = self.config.counted(request)
        left = max(0, true_tokens(request, self.name) - done)
        return (self._size.to_come(request, done, left), request.arrival)

    def rekey_after(self, request: Request) -> int:
        return self.config.rekey_after(request)
