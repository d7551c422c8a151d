"""Skip-join multi-level feedback queue: no forecast needed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.core.costs import CostModel
from engine.core.policies.base import Key, Starvation, Static
from engine.core.request import Request


@dataclass(frozen=True, slots=True)
class MlfqConfig:
    """quantum: seconds that a request may run in the first level. ratio: how much longer each
    level's quantum is than the one above. starvation: seconds without running after which a
    request is promoted to the first level; inf: never. Defaults are those of FastServe's code.

    Raises ``ValueError`` naming the field.
    """

    quantum: float = 0.01
    ratio: float = 2.0
    starvation: float = 3.0

    def __post_init__(self) -> None:
        if not 0.0 < self.quantum < math.inf:
            raise ValueError(f"quantum must be above 0 seconds and finite, got {self.quantum}")
        if not 1.0 < self.ratio < math.inf:
            raise ValueError(f"ratio must be above 1 and finite, got {self.ratio}")
        if not self.starvation > 0.0:
            raise ValueError(f"starvation must be above 0 seconds, got {self.starvation}")


class Mlfq(Static):
    """FastServe ("Fast Distributed Inference Serving for Large Language Models", Wu et al. 2023,
    arXiv 2305.05920, and its code).

    A request joins the first level whose quantum holds the prefill of its prompt, skipping those
    above, and sinks by one whenever it has used its level's quantum up. First come, first served
    within a level. Time is what the cost model says of whole steps, as FastServe's profile does:
    one prefill alone, then decodes in a full batch. Prefill again after a preemption is not
    charged. It reads the number of output tokens alone, so demotion falls on a single token.
    """

    name = "mlfq"
    preempts = True

    def __init__(self, config: MlfqConfig | None, cost: CostModel, batch: int) -> None:
        """``batch``: requests per step when the engine is busy."""
        if batch < 1:
            raise ValueError(f"batch must be at least 1 request, got {batch}")
        self.config = config or MlfqConfig()
        if math.isfinite(self.config.starvation):
            self.starvation = Starvation(seconds=self.config.starvation)
        self._cost = cost
        self._batch = batch
        self._promoted: dict[str, int] = {}  # output tokens when last promoted
        #: Last level asked about, and the output tokens at which it began and ends.
        self._reached: dict[str, tuple[int, int, int]] = {}

    def key(self, request: Request) -> Key:
        """``(level, arrival)``; the first level is 0."""
        level, _ = self._stands(request)
        return (float(level), request.arrival)

    def tokens(self, request: Request) -> float:
        """Decode steps in a full batch that the quantum of its level is long."""
        level, _ = self._stands(request)
        return self._quantum(level) / self._cost.step(self._batch, 0)

    def rekey_after(self, request: Request) -> int:
        _, end = self._stands(request)
        return end - request.output_tokens

    def starved(self, request: Request) -> None:
        self._promoted[request.id] = request.output_tokens
        self._reached.pop(request.id, None)

    def observe(self, request: Request, now: float) -> None:
        self._promoted.pop(request.id, None)
        self._reached.pop(request.id, None)

    def _stands(self, request: Request) -> tuple[int, int]:
        """Its level, and the output tokens at which it leaves that for the next one."""
        reached = self._reached.get(request.id)
        if reached is None or request.output_tokens < reached[1]:
            reached = self._joins(request)
        level, start, end = reached
        prefill = self._cost.step(0, request.prompt_tokens)
        while request.output_tokens >= end:
            level, start = level + 1, end
            end += self._tokens(level, start, request.prompt_tokens, prefill)
        self._reached[request.id] = level, start, end
        return level, end

    def _joins(self, request: Request) -> tuple[int, int, int]:
        """Level, beginning and end where it enters, when it arrives or is promoted."""
        prefill = self._cost.step(0, request.prompt_tokens)
        start = self._promoted.get(request.id)
        level = 0
        if start is None:
            start = 0
            while self._quantum(level) < prefill:
                level += 1
        return level, start, start + self._tokens(level, start, request.prompt_tokens, prefill)

    def _tokens(self, level: int, start: int, prompt_tokens: int, prefill: float) -> int:
        """Output tokens that use up a level's quantum, at least 1, when it entered at ``start``."""
        step = self._cost.step(self._batch, 0, self._batch * (prompt_tokens + start))
        seconds = self._quantum(level)
        if start == 0:
            seconds -= prefill - step  # which gives the first token
        # Rounding must not make a quantum of ten steps last eleven.
        return max(1, math.ceil(seconds / step - 1e-9))

    def _quantum(self, level: int) -> float:
        return float(self.config.quantum * self.config.ratio**level)
