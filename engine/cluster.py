"""Several replicas behind a router: planning past one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.core.request import Request
from engine.gaps import Gaps
from engine.metrics import Latency, Summary, summarise
from engine.replica import Replica
from engine.result import Result
from engine.router import Router
from engine.timing_table import merged
from engine.timings import Timings


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """``results``: of each replica, over its own time. timings: of all, in order of finish.

    duration: seconds from the first arrival to the last finish anywhere. routed: requests that each
    replica was sent. utilisation: mean share of the duration that the replicas were stepping.
    """

    results: tuple[Result, ...]
    timings: Timings
    routed: tuple[int, ...]
    duration: float
    utilisation: float
    itl: Latency

    @property
    def summary(self) -> Summary:
        """Raises ``ValueError`` when nothing finished."""
        return summarise(self.timings, self.itl)

    @property
    def refused(self) -> tuple[str, ...]:
        return tuple(name for result in self.results for name in result.refused)

    @property
    def imbalance(self) -> float:
        """Output tokens of the busiest replica over the mean: 1 is even."""
        tokens = [int(result.timings.output_tokens.sum()) for result in self.results]
        return max(tokens) * len(tokens) / sum(tokens) if sum(tokens) else 1.0

    @property
    def prefix_hit_rate(self) -> float:
        """Prompt tokens found in a prefix cache over those looked up; 0 when none were."""
        memories = [result.stats.memory for result in self.results]
        queried = sum(memory.queried_tokens for memory in memories)
        return sum(memory.prefix_hit_tokens for memory in memories) / queried if queried else 0.0


def run_cluster(
    requests: Sequence[Request], replicas: Sequence[Replica], router: Router
) -> ClusterResult:
    """Send each request, as it arrives, where ``router`` says, and run all to the end.

    ``replicas`` must be new, each with a policy of its own, and with an outlook for a router that
    predicts. The router sees them as they are at the arrival, without delay.

    Raises ``ValueError`` when there are no requests or replicas, and what a replica raises.
    """
    if not requests:
        raise ValueError("requests must not be empty")
    if not replicas:
        raise ValueError("replicas must not be empty")
    routed = [0] * len(replicas)
    ordered = sorted(requests, key=lambda request: request.arrival)
    for request in ordered:
        if router.looks:
            for replica in replicas:
                replica.advance(request.arrival)
        chosen = router.choose(request, replicas)
        routed[chosen] += 1
        replicas[chosen].submit(request)
    gaps = Gaps()
    for replica in replicas:
        replica.advance()
        gaps.merge(replica.gaps)
    results = tuple(replica.result() for replica in replicas)
    timings = merged([result.timings for result in results])
    last = float(timings.finished.max()) if len(timings) else ordered[0].arrival
    duration = last - ordered[0].arrival
    busy = np.array([result.utilisation * result.duration for result in results])
    return ClusterResult(
        results=results,
        timings=timings,
        routed=tuple(routed),
        duration=duration,
        utilisation=float(busy.mean() / duration) if duration else 0.0,
        itl=gaps.latency(),
    )
