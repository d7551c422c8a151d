"""Policies side by side on simulated traffic: ratios to FCFS, over seeds, with their spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from engine.bench.parallel import map_runs
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.fairness import FairnessConfig
from engine.core.policies import Fcfs, Policy
from engine.efficiency import share
from engine.measures import measure
from engine.metrics import Objective
from engine.scenarios import Arrivals, Scenario, draw
from engine.simulator import simulate
from engine.traces import Trace
from engine.workload import Lengths
from ranker.types import Forecast

__all__ = ["Arrivals", "Compared", "Scenario", "Spread", "compare", "draw"]


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

    @classmethod
    def each(cls, runs: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
        """Of every measure of ``runs``, one run per seed, by its name."""
        return {name: cls.of([run[name] for run in runs]) for name in runs[0]}


@dataclass(frozen=True, slots=True)
class Compared:
    """One policy over seeds. Latencies as ratios to FCFS on the same arrivals; below 1 is better,
    but for ``per_token_gain``, FCFS over this policy, where above 1 is.

    measures: what was measured, by the names of :func:`engine.measures.measure`.
    efficiency_e2el, efficiency_per_token: SJF efficiency, ``(fcfs − policy) / (fcfs − sjf)`` of the
    means, of the seeds in which sjf has something to gain; NaN when none has, or without sjf.
    """

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
    efficiency_e2el: Spread
    efficiency_per_token: Spread
    measures: dict[str, Spread] = field(default_factory=dict)


Makers = Mapping[str, Callable[[], Policy]]


def compare(
    scenario: Scenario,
    lengths: Lengths | Trace,
    config: SchedulerConfig,
    cost: CostModel,
    policies: Makers,
    seeds: Sequence[int],
    progress: Callable[[int], None] = lambda runs: None,
    *,
    known: Sequence[Forecast] | None = None,
    fairness: FairnessConfig | None = None,
    slo: Objective | None = None,
    jobs: int = 1,
) -> list[Compared]:
    """Run every policy, FCFS first, on the same traffic for each seed.

    ``policies`` makes a fresh one per run, since some learn. ``progress`` is told the number of
    simulations done after each. ``known``: see :func:`draw`. ``slo``: what goodput counts.
    """
    if not seeds:
        raise ValueError("seeds must not be empty")
    makers = {"fcfs": Fcfs, **policies}
    world = _World(scenario, lengths, config, cost, known, fairness, slo)
    items = [(seed, maker) for seed in seeds for maker in makers.values()]
    runs = map_runs(partial(_run, world), items, jobs, progress)
    results = {name: runs[at :: len(makers)] for at, name in enumerate(makers)}
    return [
        _compared(name, own, results["fcfs"], results.get("sjf")) for name, own in results.items()
    ]


@dataclass(slots=True, eq=False)
class _World:
    scenario: Scenario
    lengths: Lengths | Trace
    config: SchedulerConfig
    cost: CostModel
    known: Sequence[Forecast] | None
    fairness: FairnessConfig | None
    slo: Objective | None


Measures = dict[str, float]


def _run(world: _World, item: tuple[int, Callable[[], Policy]]) -> Measures:
    seed, maker = item
    requests = draw(
        world.scenario,
        world.lengths,
        world.cost,
        world.config.max_num_seqs,
        seed,
        world.known,
        world.config,
    )
    result = simulate(requests, world.config, maker(), world.cost, fairness=world.fairness)
    return measure(result, world.slo)


def _compared(
    name: str, runs: Sequence[Measures], base: Sequence[Measures], best: Sequence[Measures] | None
) -> Compared:
    def plain(what: str) -> Spread:
        return Spread.of([run[what] for run in runs])

    def ratio(what: str) -> Spread:
        return Spread.of([run[what] / fcfs[what] for run, fcfs in zip(runs, base, strict=True)])

    def gain(what: str) -> Spread:
        return Spread.of([fcfs[what] / run[what] for run, fcfs in zip(runs, base, strict=True)])

    def efficiency(what: str) -> Spread:
        if best is None:
            return Spread(math.nan, math.nan, math.nan)
        three = zip(base, runs, best, strict=True)
        shares = [share(f[what], r[what], b[what]) for f, r, b in three]
        known = [share for share in shares if not math.isnan(share)]
        return Spread.of(known or [math.nan])

    return Compared(
        policy=name,
        per_token_gain=gain("mean_per_token"),
        mean_e2el=ratio("mean_e2el"),
        p90_e2el=ratio("p90_e2el"),
        p99_e2el=ratio("p99_e2el"),
        mean_ttft=ratio("mean_ttft"),
        p99_ttft=ratio("p99_ttft"),
        peak_waiting=plain("peak_waiting"),
        mean_waiting=plain("mean_waiting"),
        utilisation=plain("utilisation"),
        preemptions=int(sum(run["preemptions"] for run in runs)),
        efficiency_e2el=efficiency("mean_e2el"),
        efficiency_per_token=efficiency("mean_per_token"),
        measures=Spread.each(runs),
    )
