"""Page-Hinkley on concordance: a fall from the stream's own running mean.

D. V. Hinkley, "Inference about the change-point from cumulative sum tests", Biometrika 58 (1971),
in the form of J. Gama et al., "A survey on concept drift adaptation", ACM Computing Surveys 46
(2014), section 4.1, and of River's ``PageHinkley``. It needs no reference mean, and so forgets one:
a slow decay drags its mean along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from drift.detectors.bootstrap import BootstrapConfig, limits
from drift.detectors.concordance import Concordance
from drift.detectors.concordance_cusum import concordances_of
from drift.detectors.cusum import Cusum, cusums
from drift.detectors.observation import Observation
from drift.detectors.protocol import Kind
from drift.detectors.sample import Floats, Sample


@dataclass(frozen=True, slots=True)
class PageHinkleyConfig:
    """``neighbours``: outcomes each one is compared with. ``delta``: fall that is let pass, as a
    share of the reference concordance."""

    neighbours: int = 32
    delta: float = 0.3

    def __post_init__(self) -> None:
        if self.neighbours < 1:
            raise ValueError(f"page_hinkley.neighbours must be >= 1, got {self.neighbours}")
        if not 0.0 <= self.delta < 1.0:
            raise ValueError(f"page_hinkley.delta must lie in [0, 1), got {self.delta}")


class PageHinkleyDetector:
    """A :class:`drift.detectors.protocol.Detector`. ``delta`` is in units of concordance."""

    def __init__(self, delta: float, limit: float, neighbours: int = 32) -> None:
        self.limit = limit
        self._delta = delta
        self._concordance = Concordance(neighbours)
        self._sum = Cusum()
        self._mean, self._seen = 0.0, 0

    @property
    def height(self) -> float:
        return self._sum.value

    @property
    def drift_detected(self) -> bool:
        return self.height >= self.limit

    def update(self, observation: Observation) -> None:
        o = observation
        x = self._concordance.update(o.score, o.tokens, o.censored)
        if x is None:
            return
        self._seen += 1
        self._mean += (x - self._mean) / self._seen
        self._sum.add(self._mean - x - self._delta)

    def reset(self) -> None:
        self._concordance.reset()
        self._sum.reset()
        self._mean, self._seen = 0.0, 0


@dataclass(frozen=True, slots=True)
class PageHinkleyFit:
    """A :class:`drift.detectors.protocol.Fitted`."""

    delta: float
    limits: tuple[float, ...]
    neighbours: int

    def detector(self, level: int = 0) -> PageHinkleyDetector:
        return PageHinkleyDetector(self.delta, self.limits[level], self.neighbours)

    def heights(self, streams: Sample) -> Floats:
        return _heights(streams, self.delta, self.neighbours)


@dataclass(frozen=True, slots=True)
class PageHinkley:
    """A :class:`drift.detectors.protocol.Method`."""

    config: PageHinkleyConfig = PageHinkleyConfig()
    kind: Kind = Kind.RANK

    def fit(
        self, reference: Sample, arl: Sequence[float], bootstrap: BootstrapConfig | None = None
    ) -> PageHinkleyFit:
        neighbours = self.config.neighbours
        own = concordances_of(reference, neighbours)
        if np.isnan(own).all():
            raise ValueError("reference has no pair of outcomes whose order in length is known")
        delta = self.config.delta * max(0.0, float(np.nanmean(own)))
        found = limits(
            partial(_heights, delta=delta, neighbours=neighbours),
            reference,
            arl,
            bootstrap or BootstrapConfig(),
        )
        return PageHinkleyFit(delta, found, neighbours)


def _heights(streams: Sample, delta: float, neighbours: int) -> Floats:
    x = concordances_of(streams, neighbours)
    known = ~np.isnan(x)
    values = np.where(known, x, 0.0)
    means = np.cumsum(values, axis=0) / np.maximum(np.cumsum(known, axis=0), 1)
    return cusums(np.where(known, means - values - delta, 0.0))
