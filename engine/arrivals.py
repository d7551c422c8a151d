"""When requests arrive: seconds, ascending. Randomness comes from the generator given."""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Shape(StrEnum):
    """How a ramp's rate goes from its start to its end."""

    LINEAR = "linear"
    EXPONENTIAL = "exponential"


def burst(count: int, spread: float, rng: np.random.Generator) -> Floats:
    """``count`` arrivals, uniform over ``spread`` seconds."""
    return np.sort(rng.uniform(0.0, spread, count))


def renewal(
    count: int,
    rate: float,
    burstiness: float,
    rng: np.random.Generator,
    *,
    exact: bool = False,
) -> Floats:
    """Gamma-distributed gaps with ``rate`` arrivals per second, from 0.

    ``burstiness`` is the shape, as in ``vllm bench serve``: 1 is Poisson, below 1 burstier, inf
    evenly spaced. ``exact`` scales the gaps to add up to ``count / rate`` seconds, as that tool
    does whenever it does not ramp: rates compare better, but gaps are no longer independent.
    """
    if not rate > 0.0 or not burstiness > 0.0:
        raise ValueError(f"rate and burstiness must be above 0, got {rate} and {burstiness}")
    gaps = _gaps(np.full(count, rate), burstiness, rng)
    if exact:
        gaps *= count / rate / gaps.sum()
    return np.asarray(np.cumsum(gaps) - gaps[0], dtype=np.float64)


def ramp(
    count: int,
    start: float,
    end: float,
    shape: Shape,
    burstiness: float,
    rng: np.random.Generator,
) -> Floats:
    """Gamma gaps whose rate goes from ``start`` to ``end`` arrivals per second, from 0.

    As ``vllm bench serve --ramp-up-strategy``: the rate follows the request's number, not the time.
    """
    if not start > 0.0 or not end > 0.0 or not burstiness > 0.0:
        raise ValueError(
            f"start, end and burstiness must be above 0, got {start}, {end} and {burstiness}"
        )
    progress = np.arange(count) / max(1, count - 1)
    if shape is Shape.LINEAR:
        rates = start + (end - start) * progress
    else:
        rates = start * (end / start) ** progress
    gaps = _gaps(rates, burstiness, rng)
    return np.asarray(np.cumsum(gaps) - gaps[0], dtype=np.float64)


def waves(count: int, rate: float, period: float, swing: float, rng: np.random.Generator) -> Floats:
    """Poisson arrivals whose rate alternates each ``period`` seconds between ``rate·(1 ± swing)``.

    Starts with the high rate; the mean over two periods is ``rate``.
    """
    if not 0.0 <= swing <= 1.0 or not period > 0.0 or not rate > 0.0:
        raise ValueError("swing must lie in [0, 1], period and rate above 0")
    # Unit-rate arrivals through the inverse of the cumulated rate, which is piecewise linear.
    unit = np.cumsum(rng.exponential(1.0, count))
    high, low = rate * (1.0 + swing) * period, rate * (1.0 - swing) * period
    cycle, within = np.divmod(unit, high + low)
    in_high = within < high
    rest = np.where(in_high, 0.0, within - high)
    seconds = np.where(
        in_high,
        within / high * period,
        period + (rest / low * period if low > 0.0 else 0.0),
    )
    return np.asarray(cycle * 2.0 * period + seconds, dtype=np.float64)


def _gaps(rates: Floats, burstiness: float, rng: np.random.Generator) -> Floats:
    if math.isinf(burstiness):
        return 1.0 / rates
    return rng.gamma(burstiness, 1.0, len(rates)) / (rates * burstiness)
