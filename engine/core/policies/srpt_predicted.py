"""Shortest predicted remaining time, with limited preemption."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.core import remaining
from engine.core.policies.base import Key, Static
from engine.core.policies.granularity import Granularity
from engine.core.policies.size import Size
from engine.core.request import Request, Status


@dataclass(frozen=True, slots=True)
class SrptPredictedConfig(Granularity):
    """protect: share of the length first predicted, from which on no order displaces a request:
    0.8 in the paper, 0 from its first token on, inf never.

    Raises ``ValueError`` naming the field.
    """

    protect: float = 0.8

    def __post_init__(self) -> None:
        Granularity.__post_init__(self)
        if not self.protect >= 0.0:
            raise ValueError(f"protect must be at least 0, got {self.protect}")


class SrptPredicted(Static):
    """Least work to come first, as the forecast expects it *given what has been generated*, with
    the limited preemption of TRAIL ("Don't Stop Me Now: Embedding Based Scheduling for LLMs",
    Shahout et al. 2025, arXiv 2410.01035, and its code on SGLang).

    TRAIL asks the model's own hidden state again and again; here the forecast made at arrival is
    conditioned on the tokens since. Late in life a request holds much memory and is nearly done,
    so it is protected: while it runs its key lies before that of anybody who waits, and if want of
    memory stops it, it comes back first. Requests without a forecast wait in front in order of
    arrival, and are protected from their first token on: they neither starve nor are displaced.
    """

    name = "srpt_predicted"
    preempts = True

    def __init__(self, config: SrptPredictedConfig | None = None, size: Size | None = None) -> None:
        self.config = config or SrptPredictedConfig()
        self._size = size or Size()
        self._protected_from: dict[str, float] = {}  # output tokens

    def key(self, request: Request) -> Key:
        """``(work to come, arrival)``; in front of these ``(0, arrival)``, and of them
        ``(-1, arrival)`` of those protected."""
        if request.trusted is None or self._late(request):
            return (-1.0 if request.status is Status.RUNNING else 0.0, request.arrival)
        done = self.config.counted(request)
        left = remaining.mean(request.trusted, done)
        return (self._size.to_come(request, done, left), request.arrival)

    def rekey_after(self, request: Request) -> int | None:
        """Sooner where protection begins; never once it has."""
        if self._late(request):
            return None
        until = self._limit(request) - request.output_tokens
        after = self.config.rekey_after(request)
        return after if after <= until else max(1, math.ceil(until))

    def observe(self, request: Request, now: float) -> None:
        self._protected_from.pop(request.id, None)

    def _late(self, request: Request) -> bool:
        return 0 < request.output_tokens >= self._limit(request)

    def _limit(self, request: Request) -> float:
        """What was *first* predicted counts, though another forecast may have come since."""
        if request.trusted is None:
            return 0.0
        limit = self._protected_from.get(request.id)
        if limit is None:
            limit = self.config.protect * remaining.mean(request.trusted, 0)
            self._protected_from[request.id] = limit
        return limit
