"""Times between tokens, counted in bins that grow with the time: millions of them, no list."""

from __future__ import annotations

import math

from engine.metrics import Latency

#: Bins are this much wider than the one before: what percentiles are exact to.
RESOLUTION = 0.01
_STEP = math.log1p(RESOLUTION)


class Gaps:
    """A histogram with exact count, mean and standard deviation.

    The gaps that skipping ahead passes over come as ramps, counted in closed form.
    """

    def __init__(self) -> None:
        self._bins: dict[int, float] = {}
        self._count = 0
        self._sum = 0.0
        self._squares = 0.0

    def __len__(self) -> int:
        return self._count

    def add(self, seconds: float, count: int = 1) -> None:
        """``count`` gaps of ``seconds`` each, above 0."""
        place = math.floor(math.log(seconds) / _STEP)
        self._bins[place] = self._bins.get(place, 0) + count
        self._count += count
        self._sum += seconds * count
        self._squares += seconds * seconds * count

    def add_ramp(self, first: float, growth: float, steps: int, count: int) -> None:
        """``count`` gaps of each of ``first, first + growth, …``, ``steps`` of them; growth >= 0.

        Between bins a ramp is spread as if it were continuous: half a step off at most.
        """
        last = first + growth * (steps - 1)
        low, high = math.floor(math.log(first) / _STEP), math.floor(math.log(last) / _STEP)
        bins = self._bins
        if low == high:
            bins[low] = bins.get(low, 0) + steps * count
        else:
            per_second = steps * count / (last - first)
            below = first
            for place in range(low, high + 1):
                above = min(last, math.exp((place + 1) * _STEP))
                bins[place] = bins.get(place, 0) + (above - below) * per_second
                below = above
        self._count += steps * count
        self._sum += count * (steps * first + growth * steps * (steps - 1) / 2)
        self._squares += count * ramp_squares(first, growth, steps)

    def quantile(self, p: float) -> float:
        """To within :data:`RESOLUTION`; NaN when empty."""
        if not self._count:
            return math.nan
        rank, seen = p * self._count, 0.0
        for place in sorted(self._bins):
            seen += self._bins[place]
            if seen >= rank:
                return math.exp((place + 0.5) * _STEP)
        return math.exp((max(self._bins) + 0.5) * _STEP)

    def merge(self, other: Gaps) -> None:
        """Count the other's gaps too."""
        for place, count in other._bins.items():
            self._bins[place] = self._bins.get(place, 0) + count
        self._count += other._count
        self._sum += other._sum
        self._squares += other._squares

    def latency(self) -> Latency:
        if not self._count:
            return Latency.of([])
        mean = self._sum / self._count
        variance = max(0.0, self._squares / self._count - mean * mean)
        median, p90, p99 = (self.quantile(p) for p in (0.5, 0.9, 0.99))
        return Latency(mean, median, p90, p99, math.sqrt(variance))


def ramp_squares(first: float, growth: float, steps: int) -> float:
    """Sum of the squares of ``first + growth·k`` over k = 0 … steps − 1."""
    n = steps
    return (
        n * first * first
        + first * growth * n * (n - 1)
        + growth * growth * (n - 1) * n * (2 * n - 1) / 6
    )
