"""The same burst under several policies, arranged so that a noisy machine is noisy for all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from engine.metrics import Summary, Timing, summarise
from serving.burst.client import Reply

#: Runs the burst of one repetition under a policy.
Run = Callable[[str, int], Awaitable[list[Reply]]]


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
    """Every repetition of the burst under one policy; replies in the order of the items."""

    policy: str
    runs: tuple[tuple[Reply, ...], ...]

    @property
    def timings(self) -> list[Timing]:
        """Of all repetitions."""
        return [reply.timing for run in self.runs for reply in run]

    @property
    def summary(self) -> Summary:
        """All repetitions as one set of requests; its duration and throughput mean nothing."""
        return summarise(self.timings)

    @property
    def throughput(self) -> float:
        """Output tokens per second, mean over repetitions."""
        return fmean(summarise([r.timing for r in run]).throughput for run in self.runs)

    @property
    def queue(self) -> QueueDepth:
        """Mean over repetitions of the time average; the highest peak."""
        depths = [QueueDepth.of([reply.timing for reply in run]) for run in self.runs]
        return QueueDepth(fmean(d.mean for d in depths), max(d.peak for d in depths))

    @property
    def unscored(self) -> float:
        """Share of requests that were scheduled without a forecast."""
        return fmean(not reply.scored for run in self.runs for reply in run)

    @property
    def preemptions(self) -> int:
        return sum(reply.preemptions for run in self.runs for reply in run)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Baseline over policy, of means: above 1 the policy is faster. ``low`` and ``high`` bound
    95 % of resamples of the requests: what another draw of prompts might have given."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f}x ({self.low:.2f}-{self.high:.2f})"


def ratio(
    baseline: PolicyResult,
    policy: PolicyResult,
    of: Callable[[Timing], float],
    *,
    seed: int = 0,
    resamples: int = 2000,
) -> Ratio:
    """Compare means of ``of`` with a paired bootstrap: a request is drawn with both its times.

    Requests of one burst share a queue, so the interval is a little too narrow. Raises
    ``ValueError`` when the two did not serve equally many requests.
    """
    pairs = zip(map(of, baseline.timings), map(of, policy.timings), strict=True)
    values = np.array(list(pairs), dtype=np.float64)
    index = np.random.default_rng(seed).integers(0, len(values), (resamples, len(values)))
    means = values[index].mean(axis=1)
    low, high = np.quantile(means[:, 0] / means[:, 1], [0.025, 0.975])
    first, second = values.mean(axis=0)
    return Ratio(float(first / second), float(low), float(high))


def order(policies: Sequence[str], repeats: int) -> list[tuple[str, int]]:
    """``(policy, repetition)`` one after the other: A B, B A, A B … (ABBA)."""
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    plan: list[tuple[str, int]] = []
    for repetition in range(repeats):
        forward = policies if repetition % 2 == 0 else list(reversed(policies))
        plan += [(policy, repetition) for policy in forward]
    return plan


async def compare(
    policies: Sequence[str], repeats: int, run: Run, *, together: bool
) -> dict[str, PolicyResult]:
    """Run each repetition's burst under each policy; results by policy.

    ``together`` runs the policies of a repetition at the same time, each on an engine of its own
    with an equal share of the machine: what disturbs one disturbs all, and it takes half as long.
    Otherwise they take turns, and the order is reversed every time.
    """
    plan = order(policies, repeats)
    replies: dict[tuple[str, int], list[Reply]] = {}
    if together:
        for repetition in range(repeats):
            results = await asyncio.gather(*(run(policy, repetition) for policy in policies))
            replies |= {
                (policy, repetition): found for policy, found in zip(policies, results, strict=True)
            }
    else:
        for policy, repetition in plan:
            replies[policy, repetition] = await run(policy, repetition)
    return {
        policy: PolicyResult(policy, tuple(tuple(replies[policy, r]) for r in range(repeats)))
        for policy in policies
    }
