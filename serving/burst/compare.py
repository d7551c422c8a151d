"""The same burst under several policies, interleaved so that a noisy machine is noisy for all."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from engine.metrics import Summary, Timing, summarise
from serving.burst.client import Reply

#: Runs one burst under a policy; the second argument names the run.
Run = Callable[[str, str], Awaitable[list[Reply]]]


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Requests that were sent and had no token yet, while any was: time average and peak."""

    mean: float
    peak: int

    @classmethod
    def of(cls, timings: Sequence[Timing]) -> QueueDepth:
        # At one instant a request that leaves makes room before the next one enters.
        changes = sorted([(t.arrival, 1) for t in timings] + [(t.first_token, -1) for t in timings])
        depth = peak = 0
        area = 0.0
        for (at, change), (following, _) in zip(changes, [*changes[1:], changes[-1]], strict=True):
            depth += change
            peak = max(peak, depth)
            area += depth * (following - at)
        span = changes[-1][0] - changes[0][0]
        return cls(area / span if span > 0 else 0.0, peak)


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """Every repetition of the burst under one policy."""

    policy: str
    runs: tuple[tuple[Reply, ...], ...]

    @property
    def timings(self) -> list[list[Timing]]:
        return [[reply.timing for reply in run] for run in self.runs]

    @property
    def summaries(self) -> list[Summary]:
        return [summarise(timings) for timings in self.timings]

    @property
    def pooled(self) -> Summary:
        """All repetitions as one set of requests (``duration`` spans them and means nothing)."""
        return summarise([timing for timings in self.timings for timing in timings])

    @property
    def throughput(self) -> float:
        """Output tokens per second, mean over repetitions."""
        return fmean(summary.throughput for summary in self.summaries)

    @property
    def queue(self) -> QueueDepth:
        """Mean over repetitions of the time average; the highest peak."""
        depths = [QueueDepth.of(timings) for timings in self.timings]
        return QueueDepth(fmean(d.mean for d in depths), max(d.peak for d in depths))

    @property
    def unscored(self) -> float:
        """Share of requests that were scheduled without a forecast."""
        replies = [reply for run in self.runs for reply in run]
        return fmean(not reply.scored for reply in replies)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Baseline over policy, one number per repetition: above 1 the policy is faster."""

    per_run: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Geometric mean, the right one for ratios."""
        return math.exp(fmean(map(math.log, self.per_run)))

    @property
    def low(self) -> float:
        return min(self.per_run)

    @property
    def high(self) -> float:
        return max(self.per_run)

    def __str__(self) -> str:
        return f"{self.mean:.2f}x ({self.low:.2f}-{self.high:.2f})"


def ratio(baseline: PolicyResult, policy: PolicyResult, of: Callable[[Summary], float]) -> Ratio:
    """Compare repetition by repetition, so that what slowed both cancels."""
    pairs = zip(baseline.summaries, policy.summaries, strict=True)
    return Ratio(tuple(of(theirs) / of(ours) for theirs, ours in pairs))


def order(policies: Sequence[str], repeats: int) -> list[tuple[str, int]]:
    """``(policy, repetition)`` in the order of running: A B, B A, A B … (ABBA)."""
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    plan: list[tuple[str, int]] = []
    for repetition in range(repeats):
        forward = policies if repetition % 2 == 0 else list(reversed(policies))
        plan += [(policy, repetition) for policy in forward]
    return plan


async def compare(policies: Sequence[str], repeats: int, run: Run) -> dict[str, PolicyResult]:
    """Run the burst under each policy ``repeats`` times, interleaved; results by policy."""
    replies: dict[str, list[tuple[Reply, ...]]] = {policy: [] for policy in policies}
    for policy, repetition in order(policies, repeats):
        replies[policy].append(tuple(await run(policy, f"{policy}-{repetition}")))
    return {policy: PolicyResult(policy, tuple(runs)) for policy, runs in replies.items()}
