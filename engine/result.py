"""What a simulated engine did, and what its requests went through."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.core.stats import SchedulerStats
from engine.gaps import Gaps
from engine.metrics import Latency, Summary, summarise
from engine.timings import Timings


@dataclass(frozen=True, slots=True)
class Result:
    """One simulated run. Seconds throughout; ``duration`` is first arrival to last finish.

    timings: in order of finish. refused: ids that found the queue full. peak_waiting, mean_waiting:
    requests in the queue, at most and over the duration. utilisation: share of the duration that
    the engine was stepping. slot_usage, kv_usage: shares of slots taken and of KV blocks held while
    it was; peak_kv_usage: the most. itl: times between tokens of all requests.
    stats: what the scheduler counted: preemptions by cause, recomputed and swapped tokens, hits.
    jain: Jain's index of weighted service per window of time among tenants that had somebody
    waiting all through it, mean over windows; NaN when never two had.
    """

    timings: Timings
    refused: tuple[str, ...]
    duration: float
    peak_waiting: int
    mean_waiting: float
    utilisation: float
    slot_usage: float
    kv_usage: float
    peak_kv_usage: float
    steps: int
    itl: Latency
    stats: SchedulerStats
    jain: float = math.nan

    @property
    def preemptions(self) -> int:
        """Times that any request lost its slot."""
        return self.stats.preemptions

    @property
    def summary(self) -> Summary:
        """Raises ``ValueError`` when nothing finished."""
        return summarise(self.timings, self.itl)


class Account:
    """Sums over the steps of one engine."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.gaps = Gaps()
        self.peak_waiting = self.steps = 0
        self.peak_kv = 0.0
        #: Seconds that requests waited, all together.
        self.waited = 0.0
        self._busy = self._slot_seconds = self._kv_seconds = 0.0

    def stood_still(self, seconds: float, waiting: int) -> None:
        self.waited += waiting * seconds

    def stepped(
        self, steps: int, seconds: float, waiting: int, running: int, kv_before: float, kv: float
    ) -> None:
        """``steps`` steps in ``seconds``; the share of KV blocks held grew evenly to ``kv``."""
        self.steps += steps
        self.peak_waiting = max(self.peak_waiting, waiting)
        self.peak_kv = max(self.peak_kv, kv)
        self.waited += waiting * seconds
        self._busy += seconds
        self._slot_seconds += running * seconds
        self._kv_seconds += (kv + kv_before) / 2 * seconds

    def result(
        self, timings: Timings, refused: tuple[str, ...], duration: float,
        stats: SchedulerStats, jain: float,
    ) -> Result:  # fmt: skip
        busy = self._busy
        return Result(
            timings=timings,
            refused=refused,
            duration=duration,
            peak_waiting=self.peak_waiting,
            mean_waiting=self.waited / duration if duration else 0.0,
            utilisation=busy / duration if duration else 0.0,
            slot_usage=self._slot_seconds / (busy * self._slots) if busy else 0.0,
            kv_usage=self._kv_seconds / busy if busy else 0.0,
            peak_kv_usage=self.peak_kv,
            steps=self.steps,
            itl=self.gaps.latency(),
            stats=stats,
            jain=jain,
        )
