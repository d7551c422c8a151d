"""Never worse: the order of the default policy on traffic as it really came.

Traces are moved to a chosen share of what the engine can do, and every latency is a ratio to first
come, first served on the same requests. Where memory decides who runs, order changes how much fits,
and first come, first served itself differs from one draw to the next: such cells are told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from engine.bench.parallel import over_seeds
from engine.capacity import effective_batch
from engine.comparison import Spread
from engine.core.policies import make
from engine.engine_profiles import EngineProfile
from engine.forecasts import Kind
from engine.result import Result
from engine.scenarios import Arrivals, Scenario, draw
from engine.simulator import simulate
from engine.traces import Trace

#: Peak share of KV blocks above which memory, not slots, may have decided who runs.
_FULL = 0.97


class Said(NamedTuple):
    """What forecasts know, as the cells of the study name it."""

    name: str
    kind: Kind
    tau: float


#: Honest noise; the same of no worth, sold as certain; nothing, honestly.
FORECASTS = (
    Said("noise", Kind.NOISE, 0.5),
    Said("stale", Kind.OVERCONFIDENT, 0.0),
    Said("flat", Kind.FLAT, 0.0),
)


@dataclass(frozen=True, slots=True)
class TracesConfig:
    """The study.

    loads: work that arrives, of what the engine can do with the requests that memory holds at once.
    requests: consecutive ones of a trace in a run, from anywhere in it; all when it has no more.
    ticks: seconds by which the clock of a trace ticks, by the beginning of its name; arrivals are
    spread over a tick.

    Raises ``ValueError`` naming the field.
    """

    policies: tuple[str, ...] = ("boost-safe",)
    forecasts: tuple[Said, ...] = FORECASTS
    loads: tuple[float, ...] = (0.9, 1.0, 1.1)
    requests: int = 3000
    ticks: tuple[tuple[str, float], ...] = (("mooncake_conversation", 3.0),)

    def __post_init__(self) -> None:
        for name in ("policies", "forecasts", "loads"):
            if not getattr(self, name):
                raise ValueError(f"{name} must name at least one")
        if min(self.loads) <= 0.0:
            raise ValueError(f"loads must be above 0, got {self.loads}")
        if self.requests < 2:
            raise ValueError(f"requests must be at least 2, got {self.requests}")


@dataclass(frozen=True, slots=True)
class Against:
    """One run against fcfs: latencies of the policy over those of fcfs."""

    mean_e2el: float
    p90_e2el: float
    p99_e2el: float
    per_token_gain: float
    fcfs_p99: float  #: seconds
    peak_kv_usage: float  #: of fcfs


@dataclass(frozen=True, slots=True)
class TracesRow:
    """One cell and policy over seeds; see :class:`Against`.

    kv_bound: memory holds fewer of these requests than the engine has slots, or was full while
    fcfs ran, in the median seed.
    """

    trace: str
    engine: str
    load: float
    forecasts: str
    policy: str
    kv_bound: bool
    mean_e2el: Spread
    p90_e2el: Spread
    p99_e2el: Spread
    per_token_gain: Spread
    fcfs_p99: Spread
    peak_kv_usage: Spread

    @property
    def worst(self) -> float:
        """The largest of the median ratios of mean, p90 and p99."""
        return max(self.mean_e2el.median, self.p90_e2el.median, self.p99_e2el.median)


class _Cell(NamedTuple):
    trace: int
    engine: EngineProfile
    load: float
    said: Said


def study(
    config: TracesConfig,
    traces: Sequence[Trace],
    engines: Sequence[EngineProfile],
    seeds: Sequence[int],
    jobs: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> list[TracesRow]:
    """A row for each trace, engine, load, kind of forecast and policy, in that order.

    ``progress`` counts cells times seeds.
    """
    if not (traces and engines and seeds):
        raise ValueError("traces, engines and seeds must name at least one each")
    cells = [
        _Cell(index, engine, load, said)
        for index in range(len(traces))
        for engine in engines
        for load in config.loads
        for said in config.forecasts
    ]
    found = over_seeds(partial(_run, config, traces), cells, seeds, jobs, progress)
    rows = []
    for cell, runs in zip(cells, found, strict=True):
        trace = traces[cell.trace]
        for policy in config.policies:
            spreads = Spread.each([asdict(run[policy]) for run in runs])
            fitting = trace.fitting(cell.engine.config).lengths
            crowded = effective_batch(fitting, cell.engine.config) < cell.engine.max_num_seqs
            full = spreads["peak_kv_usage"].median > _FULL
            rows.append(
                TracesRow(
                    trace.name, cell.engine.name, cell.load, cell.said.name, policy,
                    crowded or full, **spreads,
                )
            )  # fmt: skip
    return rows


def _run(
    config: TracesConfig, traces: Sequence[Trace], item: tuple[_Cell, int]
) -> Mapping[str, Against]:
    cell, seed = item
    trace, engine = traces[cell.trace], cell.engine
    rng = np.random.default_rng(seed)
    for name, tick in config.ticks:
        if trace.name.startswith(name):
            trace = trace.jittered(tick, rng)
    scenario = Scenario(
        Arrivals.TRACE,
        requests=config.requests,
        utilisation=cell.load,
        tau=cell.said.tau,
        forecasts=cell.said.kind,
    )
    limits, cost, slots = engine.config, engine.cost, engine.max_num_seqs
    requests = draw(scenario, trace, cost, slots, seed, config=limits)
    # A step's cost is shared by as many as run together, and memory may hold fewer than slots.
    batch = max(1, round(effective_batch(trace.fitting(limits).lengths, limits)))

    def run(policy: str) -> Result:
        return simulate(requests, limits, make(policy, cost=cost, batch=batch), cost)

    fcfs = run("fcfs")
    return {policy: _against(run(policy), fcfs) for policy in config.policies}


def _against(found: Result, fcfs: Result) -> Against:
    mine, base = found.summary, fcfs.summary
    return Against(
        mean_e2el=mine.e2el.mean / base.e2el.mean,
        p90_e2el=mine.e2el.p90 / base.e2el.p90,
        p99_e2el=mine.e2el.p99 / base.e2el.p99,
        per_token_gain=base.per_token.mean / mine.per_token.mean,
        fcfs_p99=base.e2el.p99,
        peak_kv_usage=fcfs.peak_kv_usage,
    )
