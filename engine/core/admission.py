"""Whether one more request may run beside others, given what all of them will still need.

``PREDICTED`` is the idea of the Past-Future scheduler (Gong et al., ASPLOS 2025): when a request
ends, its blocks are free again, so memory peaks at one of the moments at which somebody ends. With
the remaining lengths r in descending order and c tokens held, the peak is the largest of
``c_1 + ... + c_k + k·r_k``. There the lengths are drawn from past outputs; here they are quantiles
of each request's own forecast, given what it has generated already.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Sequence

from engine.core import remaining
from engine.core.config import AdmissionMode, SchedulerConfig
from engine.core.memory import Memory
from engine.core.request import Request
from engine.core.running import Running

#: Output lengths remembered, for requests without a forecast.
_PAST = 1024

#: Output tokens still to come as reckoned, and tokens held.
_Stand = tuple[float, int]


class Admission:
    """Decides from memory alone; slots and budgets are the planner's."""

    def __init__(self, config: SchedulerConfig, memory: Memory) -> None:
        self._config = config
        self._memory = memory
        self._totals: dict[str, float] = {}  # output tokens each is reckoned to reach
        self._lineup: list[_Stand] | None = None  # of those that run, ascending; None: not known
        self._allowed: _Stand | None = None  # of the one allowed last, which may have come in
        self._blocks = 0  # in the tables of the lineup
        self._past: deque[int] = deque(maxlen=_PAST)
        self._sorted: list[int] = []
        self._stale = 0

    def admits(
        self,
        request: Request,
        running: Running | Sequence[Request],
        obtainable: Callable[[int], bool],
    ) -> bool:
        """Whether it may join ``running``. ``obtainable``: whether so many blocks are to be had.

        Call :meth:`changed` when anything happened to those that run but that the one allowed last
        came in.
        """
        need = self._memory.admission_need(request)
        if not running:
            return obtainable(need)
        if not obtainable(need + self._config.reserved_blocks):
            return False
        if self._config.admission.mode is not AdmissionMode.PREDICTED:
            return True
        if self._lineup is None:
            self._lineup = sorted(map(self._stand, running))
            self._blocks = sum(len(each.block_table) for each in running)
        elif len(running) > len(self._lineup) and self._allowed is not None:
            stand, self._allowed = self._allowed, None
            insort(self._lineup, stand)
            self._blocks += self._memory.blocks_for(stand[1])
        stand = self._stand(request)
        if self._peak(stand) > self._config.capacity:
            return False
        self._allowed = stand
        return True

    def changed(self) -> None:
        """Somebody computed, ended, gave way or got another forecast."""
        self._lineup = self._allowed = None

    def ended(self, request: Request) -> None:
        """Learn how long an answer became; forget what was reckoned of it."""
        self.changed()
        self._totals.pop(request.id, None)
        if request.output_tokens:
            self._past.append(request.output_tokens)
            self._stale += 1

    def forecast_changed(self, request: Request) -> None:
        self.changed()
        self._totals.pop(request.id, None)

    def _peak(self, newcomer: _Stand) -> float:
        """Tokens held at the worst moment to come, if each ends when it is reckoned to."""
        assert self._lineup is not None
        ahead = self._lineup.copy()
        insort(ahead, newcomer)
        # Shared blocks are in several tables, and in memory once.
        used = self._memory.usage * self._config.num_blocks
        scale = min(1.0, used / self._blocks) if self._blocks else 1.0
        half = self._config.block_size / 2  # a last block is half full on average
        peak = held = 0.0
        for count, (left, tokens) in enumerate(reversed(ahead), start=1):
            held += scale * (tokens + half)
            if held + count * left > peak:
                peak = held + count * left
        return peak

    def _stand(self, request: Request) -> _Stand:
        done = request.output_tokens
        total = self._totals.get(request.id, -1.0)
        if total <= done:
            total = self._totals[request.id] = done + self._remaining(request)
        return total - done, request.prompt_tokens + done

    def _remaining(self, request: Request) -> float:
        level, generated = self._config.admission.level, request.output_tokens
        if request.forecast is not None:
            return max(1.0, remaining.quantile(request.forecast, generated, level))
        return max(1.0, self._past_remaining(generated, level))

    def _past_remaining(self, generated: int, level: float) -> float:
        """From past outputs that went on as long; as much again once nobody's did."""
        if self._stale * 16 >= len(self._sorted):
            self._sorted, self._stale = sorted(self._past), 0
        first = bisect_right(self._sorted, generated)
        longer = len(self._sorted) - first
        if not longer:
            return float(max(generated, self._config.block_size))
        return float(self._sorted[first + min(longer - 1, int(level * longer))] - generated)
