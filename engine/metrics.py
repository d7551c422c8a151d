"""Latencies of finished requests, named as ``vllm bench serve`` names them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.timing_table import in_columns
from engine.timings import Timing, Timings

__all__ = [
    "Latency",
    "Objective",
    "Summary",
    "Timing",
    "Timings",
    "attainment",
    "by_lane",
    "by_tenant",
    "goodput",
    "jain",
    "summarise",
]


@dataclass(frozen=True, slots=True)
class Latency:
    """Mean, percentiles and standard deviation in seconds; all NaN with nothing to measure."""

    mean: float
    median: float
    p90: float
    p99: float
    std: float = math.nan

    @property
    def p50(self) -> float:
        return self.median

    @classmethod
    def of(cls, seconds: Sequence[float] | NDArray[np.float64]) -> Latency:
        """Percentiles are linear between order statistics (NumPy's default)."""
        values = np.asarray(seconds, dtype=np.float64)
        if not len(values):
            return cls(math.nan, math.nan, math.nan, math.nan)
        median, p90, p99 = np.percentile(values, [50, 90, 99])
        return cls(float(values.mean()), float(median), float(p90), float(p99), float(values.std()))


@dataclass(frozen=True, slots=True)
class Summary:
    """What a set of requests went through. ``duration``: first arrival to last finish, seconds.

    ttft, e2el: time to first token, end-to-end latency. tpot: time per output token after the
    first, one value a request; requests of one token have none. per_token: E2EL per output token.
    itl: the times between tokens, all requests' together. itl_std: the standard deviation of these
    within each request, which stalls raise. max_waiting: max_waiting_time of Fu et al. 2024, the
    longer of TTFT and the longest gap between tokens. The last three are ``None`` where the gaps
    were not observed.
    """

    requests: int
    output_tokens: int
    duration: float
    ttft: Latency
    tpot: Latency
    e2el: Latency
    per_token: Latency
    itl: Latency | None = None
    itl_std: Latency | None = None
    max_waiting: Latency | None = None

    @property
    def throughput(self) -> float:
        """Output tokens per second."""
        return self.output_tokens / self.duration if self.duration > 0 else math.nan

    @property
    def request_throughput(self) -> float:
        """Finished requests per second."""
        return self.requests / self.duration if self.duration > 0 else math.nan

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "throughput": self.throughput}


def summarise(timings: Iterable[Timing], itl: Latency | None = None) -> Summary:
    """Summarise finished requests; ``itl`` is known to whoever saw the gaps.

    Raises ``ValueError`` when there are none.
    """
    rows = in_columns(timings)
    if not len(rows):
        raise ValueError("timings must hold at least one finished request")
    seen = not np.isnan(rows.longest_gap).any()
    return Summary(
        requests=len(rows),
        output_tokens=int(rows.output_tokens.sum()),
        duration=float(rows.finished.max() - rows.arrival.min()),
        ttft=Latency.of(rows.ttft),
        tpot=Latency.of(_known(rows.tpot)),
        e2el=Latency.of(rows.e2el),
        per_token=Latency.of(rows.per_token),
        itl=itl,
        itl_std=Latency.of(_known(rows.itl_std)) if seen else None,
        max_waiting=Latency.of(rows.max_waiting) if seen else None,
    )


def by_tenant(timings: Iterable[Timing]) -> dict[str, Summary]:
    """A summary of each tenant's requests."""
    return {name: summarise(part) for name, part in in_columns(timings).by_tenant().items()}


def by_lane(timings: Iterable[Timing]) -> dict[str, Summary]:
    """A summary of each lane's requests."""
    return {name: summarise(part) for name, part in in_columns(timings).by_lane().items()}


class Objective(Protocol):
    """A service-level objective (SLO); :class:`engine.core.lanes.Slo` is one."""

    def met(self, ttft: float, tpot: float | None, e2el: float) -> bool:
        """Whether a request of these times, in seconds, met all of it."""
        ...


def attainment(timings: Iterable[Timing], slo: Objective) -> float:
    """Share of finished requests that met the SLO; NaN when there are none."""
    rows = in_columns(timings)
    return _met(rows, slo) / len(rows) if len(rows) else math.nan


def goodput(timings: Iterable[Timing], slo: Objective, duration: float | None = None) -> float:
    """Requests per second that met the SLO, over ``duration`` seconds.

    Without it, from first arrival to last finish; runs that are compared should be given one.
    """
    rows = in_columns(timings)
    if not len(rows):
        return 0.0
    if duration is None:
        duration = float(rows.finished.max() - rows.arrival.min())
    return _met(rows, slo) / duration if duration > 0.0 else math.nan


def jain(shares: Mapping[str, float] | Sequence[float]) -> float:
    """Jain's index (Jain et al. 1984): 1 when all shares are equal, 1/n when one has it all.

    NaN when there are no shares, or nobody got anything.
    """
    values = list(shares.values()) if isinstance(shares, Mapping) else list(shares)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0.0 else math.nan


def _met(rows: Timings, slo: Objective) -> int:
    columns = (rows.ttft.tolist(), rows.tpot.tolist(), rows.e2el.tolist())
    return sum(
        slo.met(ttft, None if math.isnan(tpot) else tpot, e2el)
        for ttft, tpot, e2el in zip(*columns, strict=True)
    )


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[~np.isnan(values)]
