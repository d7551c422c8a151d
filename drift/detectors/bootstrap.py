"""Limits from streams resampled out of the reference itself.

Neighbouring outcomes are dependent: through the comparisons that detectors make between them, and
because topics come in bursts. No table of run lengths holds then, and drawing single outcomes is
wrong by a factor of ten. So blocks are drawn (H. R. Kuensch, Annals of Statistics 17, 1989;
circular as D. N. Politis & J. P. Romano, 1992).

A reference is a sample itself: traffic that has not changed differs from it by as much as one
sample differs from another. So each stream is drawn from a copy of the reference that was drawn
from it (B. Efron & R. Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 17), and a
short reference gets higher limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from drift.detectors.sample import Floats, Sample


@dataclass(frozen=True, slots=True)
class BootstrapConfig:
    """``blocks``: outcomes per block; the highest limit of them counts, because long blocks keep
    the order of the reference but repeat its few arrangements, and single outcomes do the opposite.
    ``streams`` x ``length``: outcomes that are drawn for each.
    """

    blocks: tuple[int, ...] = (1, 64)
    streams: int = 64
    length: int = 8192
    seed: int = 20241126

    def __post_init__(self) -> None:
        if self.streams < 1:
            raise ValueError(f"bootstrap.streams must be >= 1, got {self.streams}")
        if not self.blocks or min(self.blocks) < 1:
            raise ValueError(f"bootstrap.blocks must name sizes >= 1, got {self.blocks}")
        if self.length < 512:
            raise ValueError(f"bootstrap.length must be >= 512, got {self.length}")


def resampled(
    sample: Sample, streams: int, length: int, block: int, rng: np.random.Generator
) -> Sample:
    """Streams drawn in circular blocks, shape [length, streams]."""
    blocks = -(-length // block)
    starts = rng.integers(0, len(sample), size=(blocks, 1, streams))
    index = (starts + np.arange(block)[None, :, None]) % len(sample)
    return sample.take(index.reshape(blocks * block, streams)[:length])


def copies(
    sample: Sample, streams: int, length: int, block: int, rng: np.random.Generator
) -> Sample:
    """As :func:`resampled`, but each stream from a copy of the reference of its own."""
    n, count = len(sample), -(-len(sample) // block)
    starts = rng.integers(0, n, size=(count, 1, streams))
    copy = (starts + np.arange(block)[None, :, None]) % n
    copy = copy.reshape(count * block, streams)[:n]
    blocks = -(-length // block)
    places = rng.integers(0, n, size=(blocks, 1, streams))
    index = (places + np.arange(block)[None, :, None]) % n
    return sample.take(np.take_along_axis(copy, index.reshape(-1, streams)[:length], axis=0))


def limits(
    heights_of: Callable[[Sample], Floats],
    sample: Sample,
    arl: Sequence[float],
    config: BootstrapConfig,
    *,
    memory: int = 256,
) -> tuple[float, ...]:
    """Heights that streams like ``sample`` reach once in ``arl`` outcomes each.

    ``memory``: outcomes for which one excursion keeps the height up, at most: the span over which
    it counts once, and that a stream takes to get going.
    """
    rng = np.random.default_rng(config.seed)
    highest = [-math.inf] * len(arl)
    for block in config.blocks:
        heights = heights_of(copies(sample, config.streams, config.length, block, rng))
        spans = (len(heights) - memory) // memory
        if spans < 1:
            raise ValueError(
                f"bootstrap.length must be at least {2 * memory} for this detector, "
                f"got {config.length}"
            )
        settled = heights[memory : memory + spans * memory]
        peaks = np.sort(settled.reshape(spans, memory, -1).max(axis=1).ravel())
        for i, wanted in enumerate(arl):
            highest[i] = max(highest[i], tail_limit(peaks, settled.size, wanted))
    return tuple(highest)


def tail_limit(peaks: Floats, outcomes: int, arl: float) -> float:
    """Height that ``peaks`` (ascending, found in so many outcomes) pass once in ``arl`` outcomes.

    Peaks of excursions have an exponential tail (Cramer; D. Siegmund, Sequential Analysis, 1985),
    so the highest tenth, at most 200, give a rate by which a limit rarer than the calibration is
    long can be reached.
    """
    tail = peaks[-max(2, min(200, len(peaks) // 10)) :]
    base = float(tail[0])
    slope = max(float(np.mean(tail - base)), 1e-6)  # maximum-likelihood mean excess
    expected = len(tail) * arl / outcomes  # how many of the tail a span of arl outcomes holds
    return base + slope * math.log(max(expected, 1.0))


def excursion_limits(heights: Floats, arl: Sequence[float], flat: float) -> list[float]:
    """Heights that CUSUMs like ``heights`` [time, streams] reach once in ``arl`` outcomes each;
    ``flat`` where they never climb and so say nothing."""
    peaks = excursions(heights)
    return [tail_limit(peaks, heights.size, wanted) if len(peaks) else flat for wanted in arl]


def excursions(heights: Floats) -> Floats:
    """Highest point of every excursion of CUSUMs [time, streams] above zero, ascending."""
    ending = heights == 0.0
    found = []
    for column, ends in zip(heights.T, ending.T, strict=True):
        starts = np.flatnonzero(ends)
        edges = np.concatenate(([0], starts))
        found.append(np.maximum.reduceat(column, edges) if len(column) else column)
    peaks = np.concatenate(found)
    return np.sort(peaks[peaks > 0.0])
