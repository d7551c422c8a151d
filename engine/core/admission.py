"""Whether one more request may run beside others, given what all of them will still need.

``PREDICTED`` is the idea of the Past-Future scheduler (Gong et al., ASPLOS 2025): when a request
ends, its blocks are free again, so memory peaks at one of the moments at which somebody ends. With
the remaining lengths r in descending order and c tokens held, the peak is the largest of
``c_1 + ... + c_k + k·r_k``. There the lengths are drawn from past outputs; here they are quantiles
of each request's own forecast, given what it has generated already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from engine.core import remaining
from engine.core.config import AdmissionMode, SchedulerConfig
from engine.core.memory import Memory
from engine.core.request import Request
from engine.core.running import Running

#: Output lengths remembered, for requests without a forecast.
_PAST = 1024


class Admission:
    """Decides from memory alone; slots and budgets are the planner's."""

    def __init__(self, config: SchedulerConfig, memory: Memory) -> None:
        self._config = config
        self._memory = memory
        self._totals: dict[str, float] = {}  # output tokens each is reckoned to reach
        self._past: deque[int] = deque(maxlen=_PAST)
        self._sorted: list[int] = []
        self._stale = 0

    def admits(
        self,
        request: Request,
        running: Running | Sequence[Request],
        obtainable: Callable[[int], bool],
    ) -> bool:
        """Whether it may join ``running``. ``obtainable``: whether so many blocks are to be had."""
        need = self._memory.admission_need(request)
        if not running:
            return obtainable(need)
        if not obtainable(need + self._config.reserved_blocks):
            return False
        if self._config.admission.mode is not AdmissionMode.PREDICTED:
            return True
        return self._peak([*running, request]) <= self._config.capacity

    def ended(self, request: Request) -> None:
        """Learn how long an answer became; forget what was reckoned of it."""
        self._totals.pop(request.id, None)
        if request.output_tokens:
            self._past.append(request.output_tokens)
            self._stale += 1

    def forecast_changed(self, request: Request) -> None:
        self._totals.pop(request.id, None)

    def _peak(self, requests: Sequence[Request]) -> float:
        """Tokens held at the worst moment to come, if each ends when it is reckoned to."""
        # Shared blocks are in several tables, and in memory once.
        held = sum(len(request.block_table) for request in requests)
        used = self._memory.usage * self._config.num_blocks
        scale = min(1.0, used / held) if held else 1.0
        half = self._config.block_size / 2  # a last block is half full on average
        ahead = sorted(
            ((self._ahead(r), scale * (r.total_tokens + half)) for r in requests), reverse=True
        )
        peak = now = 0.0
        for count, (left, tokens) in enumerate(ahead, start=1):
            now += tokens
            peak = max(peak, now + count * left)
        return peak

    def _ahead(self, request: Request) -> float:
        total = self._totals.get(request.id, -1.0)
        if total <= request.output_tokens:
            total = request.output_tokens + self._remaining(request)
            self._totals[request.id] = total
        return total - request.output_tokens

    def _remaining(self, request: Request) -> float:
        level, generated = self._config.admission.level, request.output_tokens
        if request.forecast is not None:
            return max(1.0, remaining.quantile(request.forecast, generated, level))
        return max(1.0, self._past_remaining(generated, level))

    def _past_remaining(self, generated: int, level: float) -> float:
        """From past outputs that went on as long; as much again once nobody's did."""
        if self._stale * 16 >= len(self._sorted):
            self._sorted, self._stale = sorted(self._past), 0
        longer = [length for length in self._sorted if length > generated]
        if not longer:
            return float(max(generated, self._config.block_size))
        return float(longer[min(len(longer) - 1, int(level * len(longer)))] - generated)
