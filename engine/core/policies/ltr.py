"""Learning to rank with a starvation rule, as published."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.core.policies.base import Key, Starvation, Static
from engine.core.request import Request


@dataclass(frozen=True, slots=True)
class LtrConfig:
    """starvation: steps without running after which a request goes first. period: output tokens
    that it may then produce before it has its old place again. The authors ran 200 and 10.

    Raises ``ValueError`` naming the field.
    """

    starvation: int = 200
    period: int = 10

    def __post_init__(self) -> None:
        for name in ("starvation", "period"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


class Ltr(Static):
    """Lowest score first among all, running or waiting, in every step ("Efficient LLM Scheduling
    by Learning to Rank", Fu et al. 2024, arXiv 2408.15792, and the scheduler of vllm-ltr).

    The period is counted in output tokens, the authors' in steps: prefill in chunks is free here.
    Requests without a forecast go before those with one, in order of arrival, as in ``ranked``.
    """

    name = "ltr"
    preempts = True

    def __init__(self, config: LtrConfig | None = None) -> None:
        self.config = config or LtrConfig()
        self.starvation = Starvation(steps=self.config.starvation)
        self._promoted: dict[str, int] = {}  # output tokens at which the promotion ends

    def key(self, request: Request) -> Key:
        """``(-1 while promoted else 0, score, arrival)``."""
        score = -math.inf if request.trusted is None else request.trusted.score
        return (-1.0 if self._left(request) > 0 else 0.0, score, request.arrival)

    def rekey_after(self, request: Request) -> int | None:
        left = self._left(request)
        return left if left > 0 else None

    def starved(self, request: Request) -> None:
        self._promoted[request.id] = request.output_tokens + self.config.period

    def observe(self, request: Request, now: float) -> None:
        self._promoted.pop(request.id, None)

    def _left(self, request: Request) -> int:
        return self._promoted.get(request.id, 0) - request.output_tokens
