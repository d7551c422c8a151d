"""CUSUM on concordance with the outcomes just before: the default detector of lost order.

Concordance falls to the reference's times the share of order that is left, whatever happens to
lengths and scores themselves. The chart climbs by allowance - concordance. Concordance is dependent
from one outcome to the next, so its limit comes from streams resampled in blocks from the
reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drift.detectors.bootstrap import BootstrapConfig, excursion_limits, resampled
from drift.detectors.concordance import Concordance, concordances
from drift.detectors.cusum import Cusum, cusums
from drift.detectors.observation import Observation
from drift.detectors.protocol import Kind
from drift.detectors.sample import Floats, Sample


@dataclass(frozen=True, slots=True)
class ChartConfig:
    """How the chart is built. Counts are outcomes.

    ``neighbours``: outcomes each one is compared with. ``share``: share of the reference
    concordance below which the chart climbs. ``caution``: standard errors of the reference by which
    it is taken to be worse than measured, so that a short reference doesn't cry wolf. The rest is
    the size of the calibration, as in :class:`BootstrapConfig`.
    """

    neighbours: int = 32
    share: float = 0.7
    caution: float = 1.0
    blocks: tuple[int, ...] = (1, 64)
    streams: int = 64
    length: int = 8192
    seed: int = 20241126

    def __post_init__(self) -> None:
        if self.neighbours < 1:
            raise ValueError(f"chart.neighbours must be >= 1, got {self.neighbours}")
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"chart.share must lie inside (0, 1), got {self.share}")
        if self.caution < 0.0:
            raise ValueError(f"chart.caution must be >= 0, got {self.caution}")
        try:
            _ = self.bootstrap
        except ValueError as error:
            raise ValueError(str(error).replace("bootstrap.", "chart.")) from None

    @property
    def bootstrap(self) -> BootstrapConfig:
        return BootstrapConfig(self.blocks, self.streams, self.length, self.seed)


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


class ConcordanceDetector:
    """A :class:`drift.detectors.protocol.Detector`. ``chart`` is the running sum."""

    def __init__(self, allowance: float, limit: float, neighbours: int = 32) -> None:
        self.allowance = allowance
        self.limit = limit
        self.chart = Cusum(limit)
        self._concordance = Concordance(neighbours)

    @property
    def height(self) -> float:
        return self.chart.value

    @property
    def drift_detected(self) -> bool:
        return self.chart.value >= self.limit

    def update(self, observation: Observation) -> None:
        o = observation
        x = self._concordance.update(o.score, o.tokens, o.censored)
        # An outcome without decided pairs leaves the chart where it is.
        self.chart.add(0.0 if x is None else self.allowance - x)

    def see(self, observation: Observation) -> None:
        """Something for later ones to be compared with; it is not judged itself. With fewer than
        ``neighbours`` of them the mean of a few pairs is taken for that of many."""
        self._concordance.update(observation.score, observation.tokens, observation.censored)

    def relearn(self, allowance: float, limit: float) -> None:
        """Go on against a longer reference."""
        self.allowance, self.limit, self.chart.ceiling = allowance, limit, limit

    def reset(self) -> None:
        self.chart.reset()
        self._concordance.reset()


@dataclass(frozen=True, slots=True)
class ConcordanceFit:
    """A :class:`drift.detectors.protocol.Fitted`."""

    calibration: Calibration
    neighbours: int

    @property
    def limits(self) -> tuple[float, ...]:
        return self.calibration.limits

    def detector(self, level: int = 0) -> ConcordanceDetector:
        return ConcordanceDetector(self.calibration.allowance, self.limits[level], self.neighbours)

    def heights(self, streams: Sample) -> Floats:
        return heights(concordances_of(streams, self.neighbours), self.calibration.allowance)


@dataclass(frozen=True, slots=True)
class ConcordanceCusum:
    """A :class:`drift.detectors.protocol.Method`."""

    config: ChartConfig = ChartConfig()
    kind: Kind = Kind.RANK

    def fit(
        self, reference: Sample, arl: Sequence[float], bootstrap: BootstrapConfig | None = None
    ) -> ConcordanceFit:
        return ConcordanceFit(
            calibrate(reference, arl, self.config, bootstrap), self.config.neighbours
        )


def concordances_of(streams: Sample, neighbours: int) -> Floats:
    """:func:`drift.detectors.concordance.concordances` of a sample, [time, streams]."""
    at = streams.columns()
    return concordances(at.scores, at.tokens, at.censored, neighbours)


def heights(concordance: Floats, allowance: float) -> Floats:
    """Charts of ``concordance`` [time, streams], NaN where no pair was decided."""
    return cusums(np.nan_to_num(allowance - concordance, nan=0.0))


def calibrate(
    sample: Sample,
    arl: Sequence[float],
    config: ChartConfig,
    bootstrap: BootstrapConfig | None = None,
) -> Calibration:
    """Allowance and limits for streams like ``sample``. Pure; takes about a second.

    Raises ``ValueError`` when the sample has too few decided pairs, or its forecasts order lengths
    no better than chance (no allowance above zero can be had from it).
    """
    size = bootstrap or config.bootstrap
    rng = np.random.default_rng(size.seed)
    if len(sample) <= config.neighbours:
        raise ValueError(
            f"sample needs more than chart.neighbours = {config.neighbours} outcomes, "
            f"has {len(sample)}"
        )
    own = concordances_of(sample, config.neighbours)
    if np.isnan(own).all():
        raise ValueError("sample has no pair of outcomes whose order in length is known")
    mean = float(np.nanmean(own))
    repeats = resampled(sample, 200, len(sample), max(size.blocks), rng)
    error = float(np.nanstd(np.nanmean(concordances_of(repeats, config.neighbours), axis=0)))
    cautious = mean - config.caution * error
    if cautious <= 0.0:
        raise ValueError(
            f"reference concordance {mean:.3f} (standard error {error:.3f}) is no better than "
            f"chance: train a better ranker, or give a longer reference"
        )
    allowance = config.share * cautious
    highest = [0.0] * len(arl)
    for block in size.blocks:
        streams = resampled(sample, size.streams, size.length, block, rng)
        x = concordances_of(streams, config.neighbours)
        # As if the reference were as much worse as caution takes it to be.
        charts = heights(x - (float(np.nanmean(x)) - cautious), allowance)
        # A reference in perfect order never climbs: then as many outcomes without any order as
        # each one is compared with.
        found = excursion_limits(charts, arl, allowance * config.neighbours)
        highest = [max(pair) for pair in zip(highest, found, strict=True)]
    return Calibration(mean, error, allowance, tuple(arl), tuple(highest))
