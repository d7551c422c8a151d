"""How long does a simulation take, and how much memory? A trace, or a million requests."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np

from engine.arrivals import renewal
from engine.bench.parallel import alone
from engine.core.policies import make
from engine.engine_profiles import EngineProfile
from engine.scenarios import LEAST, Arrivals, Scenario, draw
from engine.simulator import simulate
from engine.traces import Trace
from engine.workload import Lengths


@dataclass(frozen=True, slots=True)
class ScaleConfig:
    """``requests`` with ``load`` of what full batches can do."""

    requests: int
    load: float = 0.9
    policy: str = "boost-fast"
    tau: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.requests < LEAST:
            raise ValueError(f"requests must be at least {LEAST}, got {self.requests}")
        if not self.load > 0.0:
            raise ValueError(f"load must be above 0, got {self.load}")


@dataclass(frozen=True, slots=True)
class Scale:
    """seconds: of the simulation, which begins with requests in memory; cpu_seconds: what of them
    it had the processor. peak_bytes: of the whole
    process, these requests and the interpreter with it. simulated_seconds: on the virtual clock."""

    trace: str
    requests: int
    output_tokens: int
    steps: int
    peak_waiting: int
    seconds: float
    cpu_seconds: float
    simulated_seconds: float
    peak_bytes: int

    @property
    def requests_per_second(self) -> float:
        """Of processor time."""
        return self.requests / self.cpu_seconds


def azure_like(requests: int, rng: np.random.Generator) -> Trace:
    """Arrivals and lengths of the shape of Azure's 2023 conversation trace: Poisson but for a
    little burstiness, log-normal prompts of 1,155 tokens on average and answers of 211, cut at
    1,000. Fitted to the published trace, not taken from it."""
    prompt = np.exp(rng.normal(6.633, 0.985, requests)).astype(np.int64)
    output = np.exp(rng.normal(5.019, 0.859, requests)).astype(np.int64)
    lengths = Lengths(np.clip(prompt, 1, 14_050), np.clip(output, 1, 1000))
    return Trace("azure-like", renewal(requests, 5.5, 1.0 / 1.094**2, rng), lengths)


def scale(config: ScaleConfig, profile: EngineProfile, trace: Trace | None = None) -> Scale:
    """Simulate ``requests`` of a trace, or :func:`azure_like` ones, in a process of its own."""
    return alone(_scale, (config, profile, trace))


def _scale(item: tuple[ScaleConfig, EngineProfile, Trace | None]) -> Scale:
    config, profile, trace = item
    if trace is None:
        trace = azure_like(config.requests, np.random.default_rng(config.seed))
    slots, cost = profile.max_num_seqs, profile.cost
    scenario = Scenario(Arrivals.TRACE, config.requests, config.load, tau=config.tau)
    requests = draw(scenario, trace, cost, slots, config.seed, config=profile.config)
    policy = make(config.policy, cost=cost, batch=slots)
    begun, busy = perf_counter(), process_time()
    result = simulate(requests, profile.config, policy, cost)
    seconds, cpu_seconds = perf_counter() - begun, process_time() - busy
    return Scale(
        trace=trace.name,
        requests=len(result.timings),
        output_tokens=result.summary.output_tokens,
        steps=result.steps,
        peak_waiting=result.peak_waiting,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        simulated_seconds=result.duration,
        peak_bytes=_peak_bytes(),
    )


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
