"""What a replay cost and gained, part by part, against first come, first served."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.arrivals import Floats
from serving.drift_bench.acting.config import ActingConfig
from serving.drift_bench.acting.loop import Run

Mask = NDArray[np.bool_]

#: Below it, the order is that of arrival rather than that of forecasts.
TRUSTED = 0.5

#: Names of parts of a replay, in order of time; FOUND lies inside CHANGED, RETURNED inside AGAIN.
USUAL, CHANGED, FOUND, AGAIN, RETURNED = "usual", "changed", "found", "again", "returned"
PARTS = (USUAL, CHANGED, FOUND, AGAIN, RETURNED)


@dataclass(frozen=True, slots=True)
class Ratios:
    """E2EL over that which the same requests have under FCFS; NaN when there are none.

    ``longest``: p99 of the requests with the longest answers, who pay for the short ones.
    ``seconds``: the p99 itself, and ``fcfs`` that of FCFS.
    """

    requests: int
    mean: float
    p99: float
    longest: float
    seconds: float
    fcfs: float


@dataclass(frozen=True, slots=True)
class Marks:
    """Arrivals from the change until trust was gone, and from the return of usual traffic until it
    was back; infinite when that did not happen. ``early``: trust went before the change."""

    found: float
    returned: float
    early: bool


def marks(acted: Run, config: ActingConfig) -> Marks:
    """Of a replay with the monitor acting."""
    trusted = acted.trust >= TRUSTED
    found = _first(~trusted[config.change : config.back])
    returned = _first(trusted[config.back :]) if math.isfinite(found) else math.inf
    return Marks(found, returned, bool((~trusted[config.warm_up : config.change]).any()))


def masks(marks: Marks, config: ActingConfig) -> dict[str, Mask]:
    """Which arrivals belong to each of :data:`PARTS`."""
    number = np.arange(config.arrivals)
    changed = (number >= config.change) & (number < config.back)
    again = number >= config.back
    return {
        USUAL: (number >= config.warm_up) & (number < config.change),
        CHANGED: changed,
        FOUND: changed & (number >= config.change + marks.found),
        AGAIN: again,
        RETURNED: again & (number >= config.back + marks.returned),
    }


def ratios(run: Run, fcfs: Run, tokens: NDArray[np.int64], part: Mask, longest: float) -> Ratios:
    """Of the arrivals of ``part``."""
    took, first = run.e2el[part], fcfs.e2el[part]
    if not len(took):
        return Ratios(0, math.nan, math.nan, math.nan, math.nan, math.nan)
    long = tokens[part] >= np.quantile(tokens[part], 1.0 - longest)
    seconds, usual = _p99(took), _p99(first)
    return Ratios(
        requests=len(took),
        mean=float(took.mean() / first.mean()),
        p99=seconds / usual,
        longest=_p99(took[long]) / _p99(first[long]),
        seconds=seconds,
        fcfs=usual,
    )


def _p99(values: Floats) -> float:
    return float(np.quantile(values, 0.99))


def _first(flags: Mask) -> float:
    return float(flags.argmax()) if flags.any() else math.inf
