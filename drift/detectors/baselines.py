"""What a detector has to beat: silence, and alarms at random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drift.detectors.bootstrap import BootstrapConfig
from drift.detectors.observation import Observation
from drift.detectors.protocol import Kind
from drift.detectors.sample import Floats, Sample


class NoDriftDetector:
    """A :class:`drift.detectors.protocol.Detector` that never alarms (River's ``NoDrift``)."""

    height, limit, drift_detected = 0.0, math.inf, False

    def update(self, observation: Observation) -> None:
        pass

    def reset(self) -> None:
        pass


class DummyDetector:
    """A :class:`drift.detectors.protocol.Detector` that alarms at random, as often as asked for
    (River's ``DummyDriftDetector``): the delay that a false-alarm rate alone buys."""

    def __init__(self, probability: float, seed: int = 0) -> None:
        self.limit = 1.0 - probability
        self.height = 0.0
        self._seed = seed
        self._rng = np.random.default_rng(seed)

    @property
    def drift_detected(self) -> bool:
        return self.height >= self.limit

    def update(self, observation: Observation) -> None:
        self.height = float(self._rng.random())

    def reset(self) -> None:
        self.height = 0.0
        self._rng = np.random.default_rng(self._seed)


@dataclass(frozen=True, slots=True)
class NoDrift:
    """A :class:`drift.detectors.protocol.Method` and all it learns."""

    kind: Kind = Kind.RANK
    limits: tuple[float, ...] = (math.inf,)

    def fit(
        self, reference: Sample, arl: Sequence[float], bootstrap: BootstrapConfig | None = None
    ) -> NoDrift:
        return NoDrift(self.kind, tuple(math.inf for _ in arl))

    def detector(self, level: int = 0) -> NoDriftDetector:
        return NoDriftDetector()

    def heights(self, streams: Sample) -> Floats:
        return np.zeros(streams.columns().scores.shape)


@dataclass(frozen=True, slots=True)
class Dummy:
    """A :class:`drift.detectors.protocol.Method` and all it learns; ``seed`` decides."""

    seed: int = 0
    kind: Kind = Kind.RANK
    limits: tuple[float, ...] = (1.0,)

    def fit(
        self, reference: Sample, arl: Sequence[float], bootstrap: BootstrapConfig | None = None
    ) -> Dummy:
        return Dummy(self.seed, self.kind, tuple(1.0 - 1.0 / wanted for wanted in arl))

    def detector(self, level: int = 0) -> DummyDetector:
        return DummyDetector(1.0 - self.limits[level], self.seed)

    def heights(self, streams: Sample) -> Floats:
        """Of a single stream what :meth:`detector` gives; each of several has draws of its own."""
        shape = streams.columns().scores.shape
        found: Floats = np.random.default_rng(self.seed).random(shape)
        return found
