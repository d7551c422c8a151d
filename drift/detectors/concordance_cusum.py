"""A CUSUM chart on concordance, and limits calibrated to a wanted rate of false alarms.

E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954): C = max(0, C + k - x). The chart
climbs while concordance x stays below the allowance k, and returns to zero while it does not. The
mean number of outcomes between false alarms (ARL0) sets the limit. Concordance is dependent from
one outcome to the next, so no table applies: the limit comes from streams resampled in blocks from
the reference itself (H. R. Kuensch, Annals of Statistics 17, 1989; circular as Politis & Romano).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drift.detectors.concordance import concordances
from drift.detectors.sample import Sample


@dataclass(frozen=True, slots=True)
class ChartConfig:
    """How the chart is built. Counts are outcomes.

    ``neighbours``: outcomes each one is compared with. ``share``: share of the reference
    concordance below which the chart climbs. ``caution``: standard errors of the reference by which
    it is taken to be worse than measured, so that a short reference doesn't cry wolf. ``blocks``:
    outcomes per resampled block; the highest limit of them counts, because long blocks keep the
    order of the reference but repeat its few arrangements, and single outcomes do the opposite.
    ``streams`` x ``length``: size of the calibration.
    """

    neighbours: int = 32
    share: float = 0.7
    caution: float = 1.0
    blocks: tuple[int, ...] = (1, 64)
    streams: int = 64
    length: int = 8192
    seed: int = 20241126

    def __post_init__(self) -> None:
        for name in ("neighbours", "streams"):
            if getattr(self, name) < 1:
                raise ValueError(f"chart.{name} must be >= 1, got {getattr(self, name)}")
        if not self.blocks or min(self.blocks) < 1:
            raise ValueError(f"chart.blocks must name sizes >= 1, got {self.blocks}")
        if self.length < 512:
            raise ValueError(f"chart.length must be >= 512, got {self.length}")
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"chart.share must lie inside (0, 1), got {self.share}")
        if self.caution < 0.0:
            raise ValueError(f"chart.caution must be >= 0, got {self.caution}")


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a reference gave: its mean concordance with standard error, the allowance, the limits.

    ``limits[i]`` is the chart height that a stationary stream reaches once in ``arl[i]`` outcomes.
    """

    concordance: float
    standard_error: float
    allowance: float
    arl: tuple[float, ...]
    limits: tuple[float, ...]


class Chart:
    """One running CUSUM. ``since_zero`` counts outcomes since it last touched zero: an estimate of
    how long ago the change began (Page 1954)."""

    def __init__(self, allowance: float, ceiling: float) -> None:
        self.allowance = allowance
        self.ceiling = ceiling  # it needs no more height than its limit, and can so come down again
        self.value = 0.0
        self.since_zero = 0

    def update(self, concordance: float | None) -> float:
        """Height after one outcome; an outcome without decided pairs leaves it where it is."""
        if concordance is not None:
            rise = self.value + self.allowance - concordance
            self.value = min(self.ceiling, max(0.0, rise))
        self.since_zero = self.since_zero + 1 if self.value > 0.0 else 0
        return self.value


def calibrate(sample: Sample, arl: Sequence[float], config: ChartConfig) -> Calibration:
    """Allowance and limits for streams like ``sample``. Pure; takes about a second.

    Raises ``ValueError`` when the sample has too few decided pairs, or its forecasts order lengths
    no better than chance (no allowance above zero can be had from it).
    """
    rng = np.random.default_rng(config.seed)
    if len(sample) <= config.neighbours:
        raise ValueError(
            f"sample needs more than chart.neighbours = {config.neighbours} outcomes, "
            f"has {len(sample)}"
        )
    own = concordances(
        sample.scores[:, None], sample.tokens[:, None], sample.censored[:, None], config.neighbours
    )
    if np.isnan(own).all():
        raise ValueError("sample has no pair of outcomes whose order in length is known")
    mean = float(np.nanmean(own))
    block = max(config.blocks)
    repeats = _streams(sample, 200, len(sample), block, config.neighbours, rng)
    error = float(np.nanstd(np.nanmean(repeats, axis=0)))
    cautious = mean - config.caution * error
    if cautious <= 0.0:
        raise ValueError(
            f"reference concordance {mean:.3f} (standard error {error:.3f}) is no better than "
            f"chance: train a better ranker, or give a longer reference"
        )
    allowance = config.share * cautious
    highest = [0.0] * len(arl)
    for block in config.blocks:
        streams = _streams(sample, config.streams, config.length, block, config.neighbours, rng)
        shift = float(np.nanmean(streams)) - cautious
        peaks = _peaks(streams - shift, allowance)
        for i, wanted in enumerate(arl):
            # A reference in perfect order never climbs, and so says nothing of heights: then as
            # many outcomes without any order as each one is compared with.
            flat = allowance * config.neighbours
            limit = _limit(peaks, streams.size, wanted) if len(peaks) else flat
            highest[i] = max(highest[i], limit)
    return Calibration(mean, error, allowance, tuple(arl), tuple(highest))


def _streams(
    sample: Sample,
    streams: int,
    length: int,
    block: int,
    neighbours: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Concordance of resampled streams, shape [length, streams]."""
    blocks = -(-length // block)
    starts = rng.integers(0, len(sample), size=(blocks, 1, streams))
    index = (starts + np.arange(block)[None, :, None]) % len(sample)
    index = index.reshape(blocks * block, streams)[:length]
    return concordances(
        sample.scores[index], sample.tokens[index], sample.censored[index], neighbours
    )


def _peaks(streams: NDArray[np.float64], allowance: float) -> NDArray[np.float64]:
    """Highest point of every excursion of the chart above zero, over all streams."""
    value = np.zeros(streams.shape[1])
    peak = np.zeros(streams.shape[1])
    found: list[NDArray[np.float64]] = []
    for x in np.nan_to_num(streams, nan=allowance):
        value = np.maximum(0.0, value + allowance - x)
        ended = (value == 0.0) & (peak > 0.0)
        if ended.any():
            found.append(peak[ended])
        peak = np.where(value == 0.0, 0.0, np.maximum(peak, value))
    found.append(peak[peak > 0.0])
    return np.sort(np.concatenate(found))


def _limit(peaks: NDArray[np.float64], outcomes: int, arl: float) -> float:
    """Height that excursions pass once in ``arl`` outcomes.

    Peaks of excursions have an exponential tail (Cramer; Siegmund 1985), so the 200 highest give a
    rate by which a limit rarer than the calibration is long can be reached.
    """
    tail = peaks[-min(200, len(peaks)) :]
    base = float(tail[0])
    slope = max(float(np.mean(tail - base)), 1e-6)  # maximum-likelihood mean excess
    expected = len(tail) * arl / outcomes  # how many of the tail a span of arl outcomes holds
    return base + slope * math.log(max(expected, 1.0))
