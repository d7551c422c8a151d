"""How long does a simulation take, and how much memory? A trace, or a million requests."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np

from engine import workload
from engine.bench.parallel import alone
from engine.bench.traffic import LEAST, served
from engine.core.policies import make
from engine.core.request import Request
from engine.engine_profiles import EngineProfile
from engine.simulator import simulate
from engine.workload import Floats, Lengths

#: Pairs of a length and its forecast that larger traffic is drawn from.
_PAIRS = 20_000


@dataclass(frozen=True, slots=True)
class ScaleConfig:
    """``requests`` with ``load`` of what full batches can do."""

    requests: int
    load: float = 0.9
    policy: str = "boost-fast"
    tau: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.requests < LEAST:  # forecasts are calibrated on half of them
            raise ValueError(f"requests must be at least {LEAST}, got {self.requests}")
        if not self.load > 0.0:
            raise ValueError(f"load must be above 0, got {self.load}")


@dataclass(frozen=True, slots=True)
class Scale:
    """seconds: of the simulation, which begins with requests in memory; cpu_seconds: what of them
    it had the processor. peak_bytes: of the whole
    process, these requests and the interpreter with it. simulated_seconds: on the virtual clock."""

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


def azure_like(requests: int, rng: np.random.Generator) -> tuple[Floats, Lengths]:
    """Arrivals and lengths of the shape of Azure's 2023 conversation trace: Poisson but for a
    little burstiness, log-normal prompts of 1,155 tokens on average and answers of 211, cut at
    1,000. Fitted to the published trace, not taken from it."""
    prompt = np.exp(rng.normal(6.633, 0.985, requests)).astype(np.int64)
    output = np.exp(rng.normal(5.019, 0.859, requests)).astype(np.int64)
    lengths = Lengths(np.clip(prompt, 1, 14_050), np.clip(output, 1, 1000))
    return workload.renewal(requests, 1.0, 1.0 / 1.094**2, rng), lengths


def scale(
    config: ScaleConfig, profile: EngineProfile, trace: tuple[Floats, Lengths] | None = None
) -> Scale:
    """Simulate in a process of its own. ``trace``: arrivals, in any unit, and lengths, of which
    the first ``requests`` are taken; without one, :func:`azure_like`."""
    return alone(_scale, (config, profile, trace))


def _scale(item: tuple[ScaleConfig, EngineProfile, tuple[Floats, Lengths] | None]) -> Scale:
    config, profile, trace = item
    rng = np.random.default_rng(config.seed)
    arrivals, lengths = trace or azure_like(config.requests, rng)
    requests = _requests(config, profile, arrivals[: config.requests], lengths, rng)
    policy = make(config.policy, cost=profile.cost, batch=profile.max_num_seqs)
    begun, busy = perf_counter(), process_time()
    result = simulate(requests, profile.config, policy, profile.cost)
    seconds, cpu_seconds = perf_counter() - begun, process_time() - busy
    return Scale(
        requests=len(result.timings),
        output_tokens=result.summary.output_tokens,
        steps=result.steps,
        peak_waiting=result.peak_waiting,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        simulated_seconds=result.duration,
        peak_bytes=_peak_bytes(),
    )


def _requests(
    config: ScaleConfig,
    profile: EngineProfile,
    arrivals: Floats,
    lengths: Lengths,
    rng: np.random.Generator,
) -> list[Request]:
    """Forecasts are worked out for some of the lengths, and requests drawn from those."""
    known = lengths.take(np.arange(min(_PAIRS, len(lengths))))
    pairs, forecasts = served(known, len(known), config.tau, rng)
    index = rng.integers(0, len(pairs), len(arrivals))
    drawn = pairs.take(index)
    rate = drawn.take(np.arange(min(_PAIRS, len(drawn)))).rate_at(
        config.load, profile.cost, profile.max_num_seqs
    )
    span = float(arrivals[-1] - arrivals[0])
    scaled = (arrivals - arrivals[0]) * ((len(arrivals) - 1) / (rate * span) if span else 0.0)
    return workload.requests(scaled, drawn, [forecasts[i] for i in index])


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
