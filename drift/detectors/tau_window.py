"""Sliding-window tau-b against the reference: the detector of slow decay, and what people see.

A ramp starts far below any chart's allowance; a window does not mind when the decay began. Order
is looked at every few outcomes, as the monitor does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from drift.detectors.bootstrap import BootstrapConfig, limits
from drift.detectors.observation import Observation
from drift.detectors.pair_window import PairWindow
from drift.detectors.protocol import Kind
from drift.detectors.sample import Floats, Sample
from drift.tau import Tau, kendall_tau


@dataclass(frozen=True, slots=True)
class TauWindowConfig:
    """Counts are outcomes. ``every``: between two looks. ``streams`` x ``length``: size of the
    calibration, which costs more per outcome than that of a chart."""

    window: int = 500
    every: int = 10
    streams: int = 24
    length: int = 4096

    def __post_init__(self) -> None:
        if self.window < 2:
            raise ValueError(f"tau_window.window must be >= 2, got {self.window}")
        if self.every < 1:
            raise ValueError(f"tau_window.every must be >= 1, got {self.every}")
        if self.streams < 1:
            raise ValueError(f"tau_window.streams must be >= 1, got {self.streams}")
        if self.length < 2 * self.window:
            raise ValueError("tau_window.length must be at least 2 windows")


class TauWindowDetector:
    """A :class:`drift.detectors.protocol.Detector`; its height is the reference's tau-b less that
    of the window. ``tau`` is the window's, with its interval."""

    def __init__(
        self, reference: float, limit: float, config: TauWindowConfig | None = None
    ) -> None:
        self.reference = reference
        self.limit = limit
        self._config = config or TauWindowConfig()
        self._window = PairWindow(self._config.window)
        self._seen = 0
        self.height = 0.0

    @property
    def drift_detected(self) -> bool:
        return self.height >= self.limit

    def update(self, observation: Observation) -> None:
        o = observation
        self._window.update(o.score, o.tokens, o.censored)
        self._seen += 1
        if self._seen % self._config.every == 0 and self._window.full:
            value = float(self._window.taus().value[0])
            self.height = 0.0 if math.isnan(value) else self.reference - value

    def tau(self, confidence: float = 0.95) -> Tau:
        """tau-b of what is in the window now."""
        return self._window.tau(confidence)

    def reset(self) -> None:
        self._window.reset()
        self._seen, self.height = 0, 0.0


@dataclass(frozen=True, slots=True)
class TauWindowFit:
    """A :class:`drift.detectors.protocol.Fitted`. ``reference``: tau-b to fall from."""

    reference: float
    limits: tuple[float, ...]
    config: TauWindowConfig

    def detector(self, level: int = 0) -> TauWindowDetector:
        return TauWindowDetector(self.reference, self.limits[level], self.config)

    def heights(self, streams: Sample) -> Floats:
        return _heights(streams, self.reference, self.config)


@dataclass(frozen=True, slots=True)
class TauWindow:
    """A :class:`drift.detectors.protocol.Method`."""

    config: TauWindowConfig = TauWindowConfig()
    kind: Kind = Kind.RANK

    def fit(
        self, reference: Sample, arl: Sequence[float], bootstrap: BootstrapConfig | None = None
    ) -> TauWindowFit:
        config, size = self.config, bootstrap or BootstrapConfig()
        tau = kendall_tau(reference.scores, reference.tokens, reference.censored)
        if not tau.defined:
            raise ValueError("reference has no pair of outcomes whose order in length is known")
        own = BootstrapConfig(size.blocks, config.streams, config.length, size.seed)
        found = limits(
            partial(_heights, reference=tau.value, config=config),
            reference,
            arl,
            own,
            memory=config.window,
        )
        return TauWindowFit(tau.value, found, config)


def _heights(streams: Sample, reference: float, config: TauWindowConfig) -> Floats:
    at = streams.columns()
    window = PairWindow(config.window, at.streams)
    found = np.zeros(at.scores.shape)
    height = np.zeros(at.streams)
    for time in range(len(at)):
        window.update(at.scores[time], at.tokens[time], at.censored[time])
        if (time + 1) % config.every == 0 and window.full:
            height = np.nan_to_num(reference - window.taus().value, nan=0.0)
        found[time] = height
    return found
