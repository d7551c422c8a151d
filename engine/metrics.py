"""Latencies of finished requests, named as serving benchmarks name them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Timing:
    """When one request arrived, gave its first token and ended: seconds of one clock.

    Raises ``ValueError`` when a time is not finite or the three do not ascend.
    """

    request_id: str
    arrival: float
    first_token: float
    finished: float
    prompt_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.arrival, self.first_token, self.finished))):
            raise ValueError("timing.arrival, first_token and finished must be finite seconds")
        if not self.arrival <= self.first_token <= self.finished:
            raise ValueError("timing.arrival, first_token and finished must ascend")

    @property
    def ttft(self) -> float:
        """Time to first token, seconds."""
        return self.first_token - self.arrival

    @property
    def e2el(self) -> float:
        """End-to-end latency, seconds."""
        return self.finished - self.arrival

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first, seconds; None below two tokens."""
        if self.output_tokens < 2:
            return None
        return (self.finished - self.first_token) / (self.output_tokens - 1)

    @property
    def per_token(self) -> float:
        """E2EL per output token, seconds: the latency that length-aware schedulers report."""
        return self.e2el / max(1, self.output_tokens)


@dataclass(frozen=True, slots=True)
class Latency:
    """Mean and percentiles in seconds; all NaN when there was nothing to measure."""

    mean: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        """Percentiles are linear between order statistics (NumPy's default)."""
        if not len(seconds):
            return cls(math.nan, math.nan, math.nan, math.nan)
        values = np.asarray(seconds, dtype=np.float64)
        p50, p90, p99 = np.percentile(values, [50, 90, 99])
        return cls(float(values.mean()), float(p50), float(p90), float(p99))


@dataclass(frozen=True, slots=True)
class Summary:
    """What a set of requests went through. ``duration``: first arrival to last finish, seconds."""

    requests: int
    output_tokens: int
    duration: float
    ttft: Latency
    tpot: Latency
    e2el: Latency
    per_token: Latency

    @property
    def throughput(self) -> float:
        """Output tokens per second."""
        return self.output_tokens / self.duration if self.duration > 0 else math.nan

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "throughput": self.throughput}


def summarise(timings: Sequence[Timing]) -> Summary:
    """Summarise finished requests. Raises ``ValueError`` when there are none."""
    if not timings:
        raise ValueError("timings must hold at least one finished request")
    start = min(timing.arrival for timing in timings)
    end = max(timing.finished for timing in timings)
    return Summary(
        requests=len(timings),
        output_tokens=sum(timing.output_tokens for timing in timings),
        duration=end - start,
        ttft=Latency.of([timing.ttft for timing in timings]),
        tpot=Latency.of([tpot for timing in timings if (tpot := timing.tpot) is not None]),
        e2el=Latency.of([timing.e2el for timing in timings]),
        per_token=Latency.of([timing.per_token for timing in timings]),
    )
