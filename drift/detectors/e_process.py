"""An e-detector on groups of outcomes: a false-alarm rate that holds without any calibration.

J. Shin, A. Ramdas & A. Rinaldo, "E-detectors: a nonparametric framework for sequential change
detection", arXiv 2203.03532 (2022), section 2.3 and 4: a bet against the pre-change mean of bounded
values has expected value of at most 1 before the change; Shiryaev-Roberts sums of them, M = (M + 1)
L, cross c no more than once in c on average, whatever the distribution. Here the values are mean
concordances within disjoint groups of outcomes, so what has to hold is that their mean, given the
past, is at least ``mean``; several sizes of bet are mixed, as in the paper's section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from drift.detectors.bootstrap import BootstrapConfig
from drift.detectors.observation import Observation
from drift.detectors.protocol import Kind
from drift.detectors.sample import Bools, Floats, Ints, Sample
from drift.tau import kendall_tau

#: Beyond any limit. Infinity, which a lasting shift would reach, never came down again.
_MOST = 1e250


@dataclass(frozen=True, slots=True)
class EProcessConfig:
    """``group``: outcomes that are compared with each other, then never again. ``share``: of the
    reference concordance that counts as no change. ``caution``: standard errors of the reference
    off it. ``bets``: sizes, as shares of the largest that cannot go broke."""

    group: int = 6
    share: float = 0.85
    caution: float = 1.0
    bets: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8)

    def __post_init__(self) -> None:
        if self.group < 2:
            raise ValueError(f"e_process.group must be >= 2, got {self.group}")
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"e_process.share must lie in (0, 1], got {self.share}")
        if self.caution < 0.0:
            raise ValueError(f"e_process.caution must be >= 0, got {self.caution}")
        if not self.bets or not all(0.0 < bet < 1.0 for bet in self.bets):
            raise ValueError(f"e_process.bets must lie inside (0, 1), got {self.bets}")


class EDetector:
    """A :class:`drift.detectors.protocol.Detector`; the height is ln M, the limit ln of the run
    length."""

    def __init__(self, mean: float, limit: float, config: EProcessConfig | None = None) -> None:
        self.limit = limit
        self._mean = mean
        self._config = config or EProcessConfig()
        self._bets = _bets(mean, self._config)
        self._sums = np.zeros(len(self._bets))
        self._group: list[Observation] = []

    @property
    def height(self) -> float:
        return _log(float(self._sums.mean()))

    @property
    def drift_detected(self) -> bool:
        return self.height >= self.limit

    def update(self, observation: Observation) -> None:
        self._group.append(observation)
        if len(self._group) < self._config.group:
            return
        x = group_concordance(
            np.array([[o.score] for o in self._group]),
            np.array([[o.tokens] for o in self._group]),
            np.array([[o.censored] for o in self._group]),
        )[0]
        self._group.clear()
        if not math.isnan(x):
            moved = (self._sums + 1.0) * (1.0 + self._bets * (self._mean - x))
            self._sums = np.minimum(moved, _MOST)

    def reset(self) -> None:
        self._sums[:] = 0.0
        self._group.clear()


@dataclass(frozen=True, slots=True)
class EFit:
    """A :class:`drift.detectors.protocol.Fitted`. ``mean``: least concordance before a change."""

    mean: float
    limits: tuple[float, ...]
    config: EProcessConfig

    def detector(self, level: int = 0) -> EDetector:
        return EDetector(self.mean, self.limits[level], self.config)

    def heights(self, streams: Sample) -> Floats:
        at, size = streams.columns(), self.config.group
        bets = _bets(self.mean, self.config)[:, None]
        sums = np.zeros((len(bets), at.streams))
        found = np.zeros(at.scores.shape)
        height = np.full(at.streams, _log(0.0))
        for time in range(len(at)):
            if (time + 1) % size == 0:
                group = slice(time + 1 - size, time + 1)
                x = group_concordance(at.scores[group], at.tokens[group], at.censored[group])
                moved = np.minimum((sums + 1.0) * (1.0 + bets * (self.mean - x)), _MOST)
                sums = np.where(np.isnan(x), sums, moved)
                height = np.log(np.maximum(sums.mean(axis=0), 1e-12))
            found[time] = height
        return found


@dataclass(frozen=True, slots=True)
class EProcess:
    """A :class:`drift.detectors.protocol.Method`. Nothing is resampled."""

    config: EProcessConfig = EProcessConfig()
    kind: Kind = Kind.RANK

    def fit(
        self, reference: Sample, arl: Sequence[float], bootstrap: BootstrapConfig | None = None
    ) -> EFit:
        config = self.config
        tau = kendall_tau(reference.scores, reference.tokens, reference.censored)
        size = len(reference) // config.group
        shape = (config.group, size)
        kept = slice(0, size * config.group)
        groups = (
            values[kept].reshape(shape[::-1]).T
            for values in (reference.scores, reference.tokens, reference.censored)
        )
        x = group_concordance(*groups)
        if not tau.defined or np.isnan(x).all():
            raise ValueError("reference has no pair of outcomes whose order in length is known")
        error = float(np.nanstd(x)) / math.sqrt(np.count_nonzero(~np.isnan(x)))
        mean = config.share * (float(np.nanmean(x)) - config.caution * error)
        if mean <= 0.0:
            raise ValueError("reference concordance is no better than chance")
        return EFit(mean, tuple(math.log(wanted / config.group) for wanted in arl), config)


def group_concordance(scores: Floats, tokens: Ints, censored: Bools) -> Floats:
    """Mean sign concordance of all decided pairs of each group, [group, streams] -> [streams].

    NaN where no pair is decided."""
    time = 2 * tokens + censored
    total = np.zeros(scores.shape[1])
    pairs = np.zeros(scores.shape[1])
    for i, j in combinations(range(len(scores)), 2):
        longer = (time[i] > time[j]) & ~censored[j]
        shorter = (time[i] < time[j]) & ~censored[i]
        sign = np.sign(scores[i] - scores[j])
        total += sign * longer - sign * shorter
        pairs += longer | shorter
    found = np.full(len(total), math.nan)
    np.divide(total, pairs, out=found, where=pairs > 0)
    return found


def _bets(mean: float, config: EProcessConfig) -> Floats:
    """Sizes in units of concordance: the largest loses all when concordance is perfect."""
    return np.array(config.bets) / (1.0 - min(mean, 0.99))


def _log(value: float) -> float:
    return math.log(max(value, 1e-12))
