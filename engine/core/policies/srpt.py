"""Shortest remaining processing time with true lengths: the oracle that preempts."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.policies.base import Key, Static
from engine.core.policies.size import Size
from engine.core.policies.sjf import true_tokens
from engine.core.request import Request


@dataclass(frozen=True, slots=True)
class SrptConfig:
    """granularity: output tokens after which a running request is keyed anew.

    Raises ``ValueError`` naming the field.
    """

    granularity: int = 16

    def __post_init__(self) -> None:
        if self.granularity < 1:
            raise ValueError(f"granularity must be at least 1 token, got {self.granularity}")


class Srpt(Static):
    """Least true work to come first, for simulation only. Optimal for mean latency on one server
    when preemption costs nothing (Schrage 1968). Here it costs what has to be computed again,
    which counts as work to come.
    """

    name = "srpt"
    preempts = True

    def __init__(self, config: SrptConfig | None = None, size: Size | None = None) -> None:
        self.config = config or SrptConfig()
        self._size = size or Size()

    def key(self, request: Request) -> Key:
        """Raises ``ValueError`` when the true length is not known."""
        left = max(0, true_tokens(request, self.name) - request.output_tokens)
        return (self._size.to_come(request, left), request.arrival)

    def rekey_after(self, request: Request) -> int:
        return self.config.granularity
