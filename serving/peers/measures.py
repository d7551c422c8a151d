"""What one run of a workload came to, and how two servers compare over repetitions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from engine.metrics import Latency, summarise
from serving.peers.client import Reply
from serving.peers.work import Workload

#: Measures of which more is better; of all others, less is.
_MORE = frozenset({"throughput"})


@dataclass(frozen=True, slots=True)
class Measured:
    """One run. throughput: tokens per second from the first request sent to the last answer, of
    output or, where prefill is measured, of prompts. Latencies are means in seconds but for
    ``itl_p99``; NaN where there are none. cores: processor time over wall time."""

    throughput: float
    ttft: float
    tpot: float
    itl_p99: float
    e2el: float
    cores: float
    seconds: float
    prompt_tokens: int
    output_tokens: int

    @classmethod
    def of(cls, workload: Workload, replies: Sequence[Reply], cpu_seconds: float) -> Measured:
        timings = [reply.timing for reply in replies]
        summary = summarise(timings)
        prompt = sum(timing.prompt_tokens for timing in timings)
        counted = prompt if workload.prefill else summary.output_tokens
        gaps = [gap for reply in replies for gap in reply.gaps]
        return cls(
            throughput=counted / summary.duration,
            ttft=summary.ttft.mean,
            tpot=summary.tpot.mean,
            itl_p99=Latency.of(gaps).p99,
            e2el=summary.e2el.mean,
            cores=cpu_seconds / summary.duration,
            seconds=summary.duration,
            prompt_tokens=prompt,
            output_tokens=summary.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class Ratio:
    """Over repetitions: median, least and most. Above 1, ours is better, whatever is measured."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, measure: str, ours: Sequence[Measured], theirs: Sequence[Measured]) -> Ratio:
        """Of runs that were made in pairs, with the same prompts. Raises ``ValueError``."""
        pairs = [
            (getattr(one, measure), getattr(other, measure))
            for one, other in zip(ours, theirs, strict=True)
        ]
        if not pairs:
            raise ValueError("a ratio needs at least one pair of runs")
        ratios = [_better(measure, one, other) for one, other in pairs]
        return cls(median(ratios), min(ratios), max(ratios))


def _better(measure: str, ours: float, theirs: float) -> float:
    above, below = (ours, theirs) if measure in _MORE else (theirs, ours)
    return above / below if below else math.nan


@dataclass(frozen=True, slots=True)
class Row:
    """One workload: runs of each server by its name, in the order of repetitions."""

    workload: Workload
    runs: Mapping[str, tuple[Measured, ...]]

    def median(self, server: str, measure: str) -> float:
        values: list[float] = [getattr(run, measure) for run in self.runs[server]]
        return median(values)

    def ratio(self, measure: str, ours: str, theirs: str) -> Ratio:
        return Ratio.of(measure, self.runs[ours], self.runs[theirs])
