"""Two CUSUMs on the probability integral transform: have lengths outgrown their forecasts?

Under calibrated forecasts the transform is even on [0, 1]; lengths that double push it up, lengths
that halve push it down, while their order, and with it every rank detector, does not move. Two
sided as in E. S. Page, Biometrika 41 (1954), on the logit of the transform, which weighs the tails
about as the likelihood of a shift does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from drift.detectors.bootstrap import BootstrapConfig, limits
from drift.detectors.cusum import Cusum, cusums
from drift.detectors.observation import Observation
from drift.detectors.protocol import Kind
from drift.detectors.sample import Floats, Sample

#: The transform is kept this far from 0 and 1, so that one outcome decides nothing.
EDGE = 0.005


@dataclass(frozen=True, slots=True)
class PitConfig:
    """``allowance``: standard deviations of drift in the mean that are let pass: half the shift
    that shall be seen soonest (G. Lorden, Annals of Mathematical Statistics 42, 1971). ``caution``:
    standard errors of the reference's mean that are let pass besides."""

    allowance: float = 0.4
    caution: float = 1.0

    def __post_init__(self) -> None:
        if not self.allowance > 0.0:
            raise ValueError(f"scale.allowance must be above 0, got {self.allowance}")
        if self.caution < 0.0:
            raise ValueError(f"scale.caution must be >= 0, got {self.caution}")


class PitDetector:
    """A :class:`drift.detectors.protocol.Detector`. ``longer`` and ``shorter`` are the charts."""

    def __init__(self, mean: float, deviation: float, allowance: float, limit: float) -> None:
        self.limit = limit
        self.longer, self.shorter = Cusum(limit), Cusum(limit)
        self._mean, self._deviation, self._allowance = mean, deviation, allowance

    @property
    def height(self) -> float:
        return max(self.longer.value, self.shorter.value)

    @property
    def drift_detected(self) -> bool:
        return self.height >= self.limit

    def update(self, observation: Observation) -> None:
        z = (logit(observation.pit) - self._mean) / self._deviation
        self.longer.add(z - self._allowance)
        self.shorter.add(-z - self._allowance)

    def reset(self) -> None:
        self.longer.reset()
        self.shorter.reset()


@dataclass(frozen=True, slots=True)
class PitFit:
    """A :class:`drift.detectors.protocol.Fitted`: mean and deviation of the logits, limits."""

    mean: float
    deviation: float
    allowance: float
    limits: tuple[float, ...]

    def detector(self, level: int = 0) -> PitDetector:
        return PitDetector(self.mean, self.deviation, self.allowance, self.limits[level])

    def heights(self, streams: Sample) -> Floats:
        return _heights(streams, self.mean, self.deviation, self.allowance)


@dataclass(frozen=True, slots=True)
class PitCusum:
    """A :class:`drift.detectors.protocol.Method`."""

    config: PitConfig = PitConfig()
    kind: Kind = Kind.SCALE

    def fit(
        self, reference: Sample, arl: Sequence[float], bootstrap: BootstrapConfig | None = None
    ) -> PitFit:
        values = logits(reference)
        mean, deviation = float(values.mean()), float(values.std())
        if not deviation > 0.0:
            raise ValueError("reference has lengths that all lie alike under their forecasts")
        config = self.config
        allowance = config.allowance + config.caution / math.sqrt(len(reference))
        found = limits(
            partial(_heights, mean=mean, deviation=deviation, allowance=allowance),
            reference,
            arl,
            bootstrap or BootstrapConfig(),
        )
        return PitFit(mean, deviation, allowance, found)


def logit(pit: float) -> float:
    u = min(1.0 - EDGE, max(EDGE, pit))
    return math.log(u / (1.0 - u))


def logits(streams: Sample) -> Floats:
    """:func:`logit` of every observation. Raises ``ValueError`` without transforms."""
    pit = streams.columns().pit
    if pit is None:
        raise ValueError("sample.pit is needed")
    u = np.clip(pit, EDGE, 1.0 - EDGE)
    found: Floats = np.log(u / (1.0 - u))
    return found


def _heights(streams: Sample, mean: float, deviation: float, allowance: float) -> Floats:
    z = (logits(streams) - mean) / deviation
    found: Floats = np.maximum(cusums(z - allowance), cusums(-z - allowance))
    return found
