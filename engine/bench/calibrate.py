"""Fit a cost model to a running engine, and see what the simulator makes of traffic it never saw.

Segments of real traffic are taken in turn: one to fit to, one to hold out. A machine that others
use as well changes its pace by the minute: each held-out segment is simulated at the pace of the
fitted ones just before and after it. On a machine of one's own that is the same pace throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine import workload
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.lanes import Lane
from engine.core.policies import Policy
from engine.core.request import Request
from engine.costs import Fit, MeasuredStep, fit
from engine.metrics import Summary, Timing, summarise
from engine.simulator import simulate
from engine.workload import Ints, Lengths


@dataclass(frozen=True, slots=True)
class CalibrateConfig:
    """segments: how many, an odd number: every second one is held out. requests: in each.

    utilisation: share of what full batches can do; near 1 the queue magnifies every error of the
    pace. longest_prompt, longest_output: tokens to which lengths are scaled down, so that a segment
    takes seconds rather than minutes and their spread stays.

    Raises ``ValueError`` naming the field.
    """

    segments: int = 11
    requests: int = 32
    utilisation: float = 0.7
    longest_prompt: int = 192
    longest_output: int = 160
    seed: int = 0

    def __post_init__(self) -> None:
        if self.segments < 3 or self.segments % 2 == 0:
            raise ValueError(f"segments must be an odd number from 3, got {self.segments}")
        for name in ("requests", "longest_prompt", "longest_output"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0.0 < self.utilisation <= 2.0:
            raise ValueError(f"utilisation must lie in (0, 2], got {self.utilisation}")


@dataclass(frozen=True, slots=True)
class Observed:
    """What an engine did with one segment.

    requests: as they came, with their real arrivals and ``true_tokens``. timings: theirs, on the
    same clock. steps: of the engine meanwhile.
    """

    requests: tuple[Request, ...]
    timings: tuple[Timing, ...]
    steps: tuple[MeasuredStep, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """A latency of the held-out segments in seconds, and how far the simulated one is off."""

    name: str
    real: float
    simulated: float

    @property
    def error(self) -> float:
        """Relative; above 0 when the simulator is slower."""
        return self.simulated / self.real - 1.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted cost model and its test.

    paces: of each segment, seconds of its steps over what the model says of them: all 1 when the
    machine kept its pace. drift: the same of the held-out ones together, over the pace that they
    were simulated at: the part of the errors that no model of an engine can avoid.
    """

    fit: Fit
    paces: tuple[float, ...]
    drift: float
    real: Summary
    simulated: Summary

    def compared(self) -> list[Compared]:
        pairs = [("E2EL", self.real.e2el, self.simulated.e2el)]
        pairs.append(("TTFT", self.real.ttft, self.simulated.ttft))
        return [
            Compared(f"{name}, {part}", getattr(real, part), getattr(simulated, part))
            for name, real, simulated in pairs
            for part in ("mean", "median", "p90", "p99")
        ]

    def error(self, part: str) -> float:
        """Of E2EL, ``mean`` or a percentile."""
        real, simulated = getattr(self.real.e2el, part), getattr(self.simulated.e2el, part)
        return float(simulated / real) - 1.0


#: Runs a segment in real time, when everybody of the one before is gone.
Engine = Callable[[Sequence[Request]], Observed]
#: A fresh policy, or lanes, for each simulated segment: policies learn.
MakePolicy = Callable[[], Policy | Sequence[Lane]]


def calibrate(
    config: CalibrateConfig,
    lengths: Lengths,
    scheduler: SchedulerConfig,
    policy: MakePolicy,
    first: CostModel,
    engine: Engine,
    progress: Callable[[int], None] = lambda segments: None,
) -> Calibration:
    """``first`` is a rough cost model, which sets the pace of the first segment.

    ``scheduler`` and ``policy`` are those of ``engine``. ``progress`` is told the segments done.
    """
    rng = np.random.default_rng(config.seed)
    cost, seen = first, list[Observed]()
    fitted: list[MeasuredStep] = []
    for segment in range(config.segments):
        seen.append(engine(_draw(config, lengths, scheduler, cost, rng)))
        if segment % 2 == 0:
            fitted += seen[-1].steps
            found = fit_all(fitted)
            cost = found.cost
        progress(segment + 1)
    paces = [_seconds(observed) / _predicted(observed, found.cost) for observed in seen]
    real, simulated, expected = list[Timing](), list[Timing](), 0.0
    for i in range(1, config.segments, 2):
        pace = (paces[i - 1] + paces[i + 1]) / 2
        expected += pace * _predicted(seen[i], found.cost)
        real += seen[i].timings
        run = simulate(seen[i].requests, scheduler, policy(), scaled(found.cost, pace))
        simulated += run.timings
    return Calibration(
        fit=found,
        paces=tuple(paces),
        drift=sum(map(_seconds, seen[1::2])) / expected,
        real=summarise(real),
        simulated=summarise(simulated),
    )


def scaled(cost: CostModel, factor: float) -> CostModel:
    """Steps that take ``factor`` times as long; swaps as before."""
    parts = {
        name: factor * getattr(cost, name) for name in ("base", "decode", "prefill", "context")
    }
    return replace(cost, **parts)


def fit_all(steps: Sequence[MeasuredStep]) -> Fit:
    """A fit whose steps take, all together, exactly as long as they took.

    Least squares leave out the slowest steps, or single pauses of the machine would tilt the
    coefficients; but pauses are part of the machine, and whoever waits in the queue waits for them.
    """
    found = fit(steps, context=True)
    scale = 1.0 / (1.0 + found.total_error)
    return replace(found, cost=scaled(found.cost, scale), total_error=0.0)


def _draw(
    config: CalibrateConfig,
    lengths: Lengths,
    scheduler: SchedulerConfig,
    cost: CostModel,
    rng: np.random.Generator,
) -> list[Request]:
    """Poisson arrivals from 0, at the load wanted of an engine of that cost."""
    short = Lengths(
        _shortened(lengths.prompt_tokens, config.longest_prompt),
        _shortened(lengths.output_tokens, config.longest_output),
    )
    drawn = short.take(rng.integers(0, len(lengths), config.requests))
    rate = drawn.rate_at(config.utilisation, cost, scheduler.max_num_seqs)
    # Scaled to the mean rate: segments are short, and each is to be as busy as the others.
    arrivals = workload.renewal(config.requests, rate, 1.0, rng, exact=True)
    return workload.requests(arrivals, drawn)


def _shortened(tokens: Ints, longest: int) -> Ints:
    """Scaled so that one in twenty is beyond ``longest``, and those cut. Never scaled up."""
    factor = min(1.0, longest / float(np.quantile(tokens, 0.95)))
    return np.asarray(np.clip(np.ceil(tokens * factor), 1, longest), dtype=np.int64)


def _seconds(observed: Observed) -> float:
    return sum(step.seconds for step in observed.steps)


def _predicted(observed: Observed, cost: CostModel) -> float:
    return sum(
        cost.step(step.decodes, step.prefill_tokens, step.context_tokens) for step in observed.steps
    )
