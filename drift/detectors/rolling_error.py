"""Rolling mean absolute error of log lengths: what dashboards of predictors usually watch.

It is here to be compared with. It alarms when lengths merely double, and it misses traffic whose
lengths no longer follow the forecasts but spread less.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from drift.detectors.bootstrap import BootstrapConfig, limits
from drift.detectors.observation import Observation
from drift.detectors.protocol import Kind
from drift.detectors.sample import Floats, Sample


@dataclass(frozen=True, slots=True)
class RollingErrorConfig:
    """``window``: outcomes averaged."""

    window: int = 300

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"rolling_error.window must be >= 1, got {self.window}")


class RollingErrorDetector:
    """A :class:`drift.detectors.protocol.Detector`; the height is how much the window's mean error
    exceeds the reference's, 0 until the window is full."""

    def __init__(self, mean: float, limit: float, window: int) -> None:
        self.limit = limit
        self.height = 0.0
        self._mean = mean
        self._size = window
        self._window: deque[float] = deque()
        self._sum = 0.0

    @property
    def drift_detected(self) -> bool:
        return self.height >= self.limit

    def update(self, observation: Observation) -> None:
        self._window.append(observation.log_error)
        self._sum += observation.log_error
        if len(self._window) > self._size:
            self._sum -= self._window.popleft()
        if len(self._window) == self._size:
            self.height = self._sum / self._size - self._mean

    def reset(self) -> None:
        self._window.clear()
        self._sum = self.height = 0.0


@dataclass(frozen=True, slots=True)
class RollingErrorFit:
    """A :class:`drift.detectors.protocol.Fitted`."""

    mean: float
    limits: tuple[float, ...]
    window: int

    def detector(self, level: int = 0) -> RollingErrorDetector:
        return RollingErrorDetector(self.mean, self.limits[level], self.window)

    def heights(self, streams: Sample) -> Floats:
        return _heights(streams, self.mean, self.window)


@dataclass(frozen=True, slots=True)
class RollingError:
    """A :class:`drift.detectors.protocol.Method`."""

    config: RollingErrorConfig = RollingErrorConfig()
    kind: Kind = Kind.SCALE

    def fit(
        self, reference: Sample, arl: Sequence[float], bootstrap: BootstrapConfig | None = None
    ) -> RollingErrorFit:
        if reference.log_error is None:
            raise ValueError("sample.log_error is needed")
        mean, window = float(reference.log_error.mean()), self.config.window
        found = limits(
            partial(_heights, mean=mean, window=window),
            reference,
            arl,
            bootstrap or BootstrapConfig(),
            memory=window,
        )
        return RollingErrorFit(mean, found, window)


def _heights(streams: Sample, mean: float, window: int) -> Floats:
    at = streams.columns()
    assert at.log_error is not None
    found = np.zeros(at.scores.shape)
    if len(at) >= window:
        sums = np.cumsum(at.log_error, axis=0)
        sums[window:] = sums[window:] - sums[:-window]
        found[window - 1 :] = sums[window - 1 :] / window - mean
    return found
