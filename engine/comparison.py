"""Policies side by side on simulated traffic: ratios to FCFS, over seeds, with their spread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from engine import workload
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import Fcfs, Policy
from engine.core.request import Request
from engine.simulator import Result, simulate
from engine.workload import Lengths


class Arrivals(StrEnum):
    BURST = "burst"  #: all within ``spread`` seconds
    POISSON = "poisson"  #: exponential gaps
    WAVES = "waves"  #: Poisson whose rate alternates between high and low every ``period`` seconds


@dataclass(frozen=True, slots=True)
class Scenario:
    """Traffic to draw. Rates follow from ``utilisation``: the work of full batches per second.

    requests: how many. spread: seconds (burst). period, swing: seconds and relative height (waves).
    tau: Kendall tau-b of the forecasts with the true lengths; the forecasts are honest about it,
    calibrated on other requests.

    Raises ``ValueError`` naming the field.
    """

    arrivals: Arrivals = Arrivals.WAVES
    requests: int = 2000
    utilisation: float = 0.92
    spread: float = 1.0
    period: float = 60.0
    swing: float = 0.6
    tau: float = 0.4

    def __post_init__(self) -> None:
        if self.requests < 2:
            raise ValueError(f"requests must be at least 2, got {self.requests}")
        if self.utilisation <= 0.0:
            raise ValueError(f"utilisation must be above 0, got {self.utilisation}")
        if self.spread < 0.0:
            raise ValueError(f"spread must be >= 0 seconds, got {self.spread}")
        if self.period <= 0.0:
            raise ValueError(f"period must be above 0 seconds, got {self.period}")
        if not 0.0 <= self.swing <= 1.0:
            raise ValueError(f"swing must lie in [0, 1], got {self.swing}")
        if not 0.0 <= self.tau <= 1.0:
            raise ValueError(f"tau must lie in [0, 1], got {self.tau}")


def draw(
    scenario: Scenario, lengths: Lengths, cost: CostModel, slots: int, seed: int
) -> list[Request]:
    """One realisation: half of ``lengths`` is traffic, drawn with replacement; the other half is
    what the forecasts were calibrated on. Raises ``ValueError`` below 80 lengths."""
    if len(lengths) < 80:
        raise ValueError(f"lengths must hold at least 80 requests, got {len(lengths)}")
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(lengths))
    half = len(lengths) // 2
    known = lengths.take(shuffled[:half])
    served = lengths.take(rng.choice(shuffled[half:], scenario.requests))
    output = np.concatenate([known.output_tokens, served.output_tokens])
    scores = workload.noisy_scores(output, scenario.tau, rng)
    forecasts = workload.calibrated(scores[half:], scores[:half], known.output_tokens)
    rate = served.rate_at(scenario.utilisation, cost, slots)
    if scenario.arrivals is Arrivals.BURST:
        arrivals = workload.burst(scenario.requests, scenario.spread, rng)
    elif scenario.arrivals is Arrivals.POISSON:
        arrivals = workload.renewal(scenario.requests, rate, 1.0, rng)
    else:
        arrivals = workload.waves(scenario.requests, rate, scenario.period, scenario.swing, rng)
    return workload.requests(arrivals, served, forecasts)


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and 10th to 90th percentile over seeds."""

    median: float
    p10: float
    p90: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        p10, median, p90 = np.percentile(np.asarray(values, dtype=np.float64), [10, 50, 90])
        return cls(float(median), float(p10), float(p90))


@dataclass(frozen=True, slots=True)
class Compared:
    """One policy over seeds. Latencies as ratios to FCFS on the same arrivals; below 1 is better,
    but for ``per_token_gain``, FCFS over this policy, where above 1 is."""

    policy: str
    per_token_gain: Spread
    mean_e2el: Spread
    p90_e2el: Spread
    p99_e2el: Spread
    mean_ttft: Spread
    p99_ttft: Spread
    peak_waiting: Spread
    mean_waiting: Spread
    utilisation: Spread
    preemptions: int


def compare(
    scenario: Scenario,
    lengths: Lengths,
    config: SchedulerConfig,
    cost: CostModel,
    policies: Mapping[str, Callable[[], Policy]],
    seeds: Sequence[int],
    progress: Callable[[int], None] = lambda runs: None,
) -> list[Compared]:
    """Run every policy, FCFS first, on the same traffic for each seed.

    ``policies`` makes a fresh one per run, since some learn. ``progress`` is told the number of
    simulations done after each.
    """
    if not seeds:
        raise ValueError("seeds must not be empty")
    makers: dict[str, Callable[[], Policy]] = {"fcfs": Fcfs, **policies}
    results: dict[str, list[Result]] = {name: [] for name in makers}
    for seed in seeds:
        requests = draw(scenario, lengths, cost, config.max_num_seqs, seed)
        for name, make_policy in makers.items():
            results[name].append(simulate(requests, config, make_policy(), cost))
            progress(sum(map(len, results.values())))
    return [_compared(name, runs, results["fcfs"]) for name, runs in results.items()]


def _compared(name: str, runs: Sequence[Result], base: Sequence[Result]) -> Compared:
    pairs = [(run.summary, fcfs.summary) for run, fcfs in zip(runs, base, strict=True)]
    return Compared(
        policy=name,
        per_token_gain=Spread.of([f.per_token.mean / r.per_token.mean for r, f in pairs]),
        mean_e2el=Spread.of([r.e2el.mean / f.e2el.mean for r, f in pairs]),
        p90_e2el=Spread.of([r.e2el.p90 / f.e2el.p90 for r, f in pairs]),
        p99_e2el=Spread.of([r.e2el.p99 / f.e2el.p99 for r, f in pairs]),
        mean_ttft=Spread.of([r.ttft.mean / f.ttft.mean for r, f in pairs]),
        p99_ttft=Spread.of([r.ttft.p99 / f.ttft.p99 for r, f in pairs]),
        peak_waiting=Spread.of([run.peak_waiting for run in runs]),
        mean_waiting=Spread.of([run.mean_waiting for run in runs]),
        utilisation=Spread.of([run.utilisation for run in runs]),
        preemptions=sum(run.preemptions for run in runs),
    )
