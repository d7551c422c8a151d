"""Traffic to compare policies on, drawn anew for each seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from engine import forecasts as forecasting
from engine import workload
from engine.arrivals import Floats, Shape
from engine.capacity import at_utilisation
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.request import Request
from engine.forecasts import Kind
from engine.traces import Trace
from engine.workload import Lengths
from ranker.types import Forecast

#: Fewer lengths than this cannot both be traffic and tell forecasts what lengths are like.
LEAST = 80


class Arrivals(StrEnum):
    BURST = "burst"  #: all within ``spread`` seconds
    POISSON = "poisson"  #: exponential gaps
    GAMMA = "gamma"  #: gamma-distributed gaps: burstiness 1 is Poisson, below 1 burstier
    WAVES = "waves"  #: Poisson whose rate alternates between high and low every ``period`` seconds
    RAMP = (
        "ramp"  #: Poisson whose rate climbs, evenly, from ``rate·(1 - swing)`` to ``(1 + swing)``
    )
    TRACE = "trace"  #: as a trace has them, its gaps scaled


@dataclass(frozen=True, slots=True)
class Scenario:
    """Traffic to draw. Rates follow from ``utilisation``: the work of full batches per second.

    requests: how many. spread: seconds (burst). period, swing: seconds and relative height (waves;
    swing also of a ramp). burstiness: shape of the gaps (gamma).
    forecasts: what they know; tau: Kendall tau-b with the true lengths, of those with noise.
    Honest ones are calibrated on other requests.

    Raises ``ValueError`` naming the field.
    """

    arrivals: Arrivals = Arrivals.WAVES
    requests: int = 2000
    utilisation: float = 0.92
    spread: float = 1.0
    period: float = 60.0
    swing: float = 0.6
    tau: float = 0.4
    burstiness: float = 0.25
    forecasts: Kind = Kind.NOISE

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
        if self.arrivals is Arrivals.RAMP and self.swing >= 1.0:
            raise ValueError("swing of a ramp must lie below 1: it begins at the mean less swing")
        if not 0.0 <= self.tau <= 1.0:
            raise ValueError(f"tau must lie in [0, 1], got {self.tau}")
        if self.burstiness <= 0.0:
            raise ValueError(f"burstiness must be above 0, got {self.burstiness}")


def draw(
    scenario: Scenario,
    lengths: Lengths | Trace,
    cost: CostModel,
    slots: int,
    seed: int,
    known: Sequence[Forecast] | None = None,
    config: SchedulerConfig | None = None,
) -> list[Request]:
    """One realisation.

    Half of ``lengths`` is traffic, drawn with replacement; forecasts are calibrated on the other
    half. With ``known``, a ranker's forecasts row by row, all of it is traffic. A trace gives a
    window of consecutive requests, as many as asked for, that begins anywhere; the rest of it, or
    all of it when nothing is left, is what forecasts are calibrated on. ``config`` says what memory
    holds, for traces; rates of the others reckon with ``slots``.

    Raises ``ValueError`` below 80 lengths, and when arrivals or forecasts do not go with them.
    """
    if (scenario.arrivals is Arrivals.TRACE) != isinstance(lengths, Trace):
        raise ValueError("arrivals trace and a trace go together: give both or neither")
    if known is not None and len(known) != len(lengths):
        raise ValueError("known must be one forecast per length")
    rng = np.random.default_rng(seed)
    if isinstance(lengths, Trace):
        limits = config or SchedulerConfig(slots, max(slots, 2048), 16, 1 << 30)
        return _window(scenario, lengths, limits, cost, rng)
    if known is not None:
        _check_enough(lengths)
        rows = rng.integers(0, len(lengths), scenario.requests)
        arrivals = _arrivals(scenario, lengths.take(rows), cost, slots, rng)
        return workload.requests(arrivals, lengths.take(rows), [known[row] for row in rows])
    drawn, made = served(lengths, scenario.requests, scenario.tau, rng, scenario.forecasts)
    return workload.requests(_arrivals(scenario, drawn, cost, slots, rng), drawn, made)


def served(
    lengths: Lengths, count: int, tau: float, rng: np.random.Generator, kind: Kind = Kind.NOISE
) -> tuple[Lengths, list[Forecast]]:
    """``count`` requests drawn with replacement from one half of ``lengths``, with forecasts that
    are calibrated on the other half.

    Raises ``ValueError`` below 80 lengths.
    """
    _check_enough(lengths)
    shuffled = rng.permutation(len(lengths))
    half = len(lengths) // 2
    known = lengths.take(shuffled[:half])
    drawn = lengths.take(rng.choice(shuffled[half:], count))
    made = forecasting.forecasts(kind, drawn.output_tokens, known.output_tokens, tau, rng)
    return drawn, made


def _check_enough(lengths: Lengths) -> None:
    if len(lengths) < LEAST:
        raise ValueError(f"lengths must hold at least {LEAST} requests, got {len(lengths)}")


def _arrivals(
    scenario: Scenario, served: Lengths, cost: CostModel, slots: int, rng: np.random.Generator
) -> Floats:
    count, swing = scenario.requests, scenario.swing
    if scenario.arrivals is Arrivals.BURST:
        return workload.burst(count, scenario.spread, rng)
    rate = served.rate_at(scenario.utilisation, cost, slots)
    if scenario.arrivals is Arrivals.POISSON:
        return workload.renewal(count, rate, 1.0, rng)
    if scenario.arrivals is Arrivals.GAMMA:
        return workload.renewal(count, rate, scenario.burstiness, rng)
    if scenario.arrivals is Arrivals.RAMP:
        ends = rate * (1.0 - swing), rate * (1.0 + swing)
        return workload.ramp(count, *ends, Shape.LINEAR, 1.0, rng)
    return workload.waves(count, rate, scenario.period, swing, rng)


def _window(
    scenario: Scenario,
    trace: Trace,
    config: SchedulerConfig,
    cost: CostModel,
    rng: np.random.Generator,
) -> list[Request]:
    trace = trace.fitting(config)
    count = min(scenario.requests, len(trace))
    if count < 2:
        raise ValueError(f"trace {trace.name} has fewer than 2 requests that fit the KV pool")
    start = int(rng.integers(0, len(trace) - count + 1))
    part = trace.window(start, count)
    outside = np.r_[0:start, start + count : len(trace)]
    rest = trace.lengths if len(outside) < LEAST else trace.lengths.take(outside)
    made = forecasting.forecasts(
        scenario.forecasts, part.lengths.output_tokens, rest.output_tokens, scenario.tau, rng
    )
    if part.span == 0.0:
        part = replace(part, arrivals=np.zeros(count))
    else:
        part = at_utilisation(part, scenario.utilisation, config, cost)
    return part.requests(made, block_size=config.block_size)
