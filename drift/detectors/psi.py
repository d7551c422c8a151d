"""Population stability of what is known at arrival: are these still the requests we know?

The population stability index of a window against the reference's deciles, sum (p - q) ln(p / q),
as credit scoring uses it (N. Siddiqi, "Credit Risk Scorecards", 2006): the symmetrised
Kullback-Leibler divergence. It is early, because it need not wait for answers, and it says nothing
of order: the ranker may do well on new requests, and badly on old ones.
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
from drift.detectors.sample import Floats, Ints, Sample


@dataclass(frozen=True, slots=True)
class PsiConfig:
    """``window``: outcomes. ``bins``: of equal share in the reference."""

    window: int = 500
    bins: int = 10

    def __post_init__(self) -> None:
        if self.bins < 2:
            raise ValueError(f"psi.bins must be >= 2, got {self.bins}")
        if self.window < self.bins:
            raise ValueError(f"psi.window must be >= psi.bins, got {self.window}")


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """``edges`` between bins, ascending, and each bin's ``share`` in the reference."""

    edges: Floats
    share: Floats

    @classmethod
    def of(cls, values: Floats | Ints, bins: int) -> Feature:
        edges = np.unique(np.quantile(values, np.arange(1, bins) / bins))
        counts = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
        return cls(edges, _smooth(counts, len(values)))

    def index(self, counts: Ints, n: int) -> Floats:
        """Population stability of ``counts`` [bins, ...], out of ``n``."""
        p = _smooth(counts, n)
        q = self.share.reshape(-1, *[1] * (counts.ndim - 1))
        found: Floats = ((p - q) * np.log(p / q)).sum(axis=0)
        return found


class PsiDetector:
    """A :class:`drift.detectors.protocol.Detector`; the height is the larger index of score and
    prompt length, 0 until the window is full."""

    def __init__(self, features: tuple[Feature, ...], limit: float, window: int) -> None:
        self.limit = limit
        self.height = 0.0
        self._features = features
        self._window: deque[tuple[int, ...]] = deque()
        self._size = window
        self._counts = [np.zeros(len(f.share), np.int64) for f in features]

    @property
    def drift_detected(self) -> bool:
        return self.height >= self.limit

    def update(self, observation: Observation) -> None:
        values = (observation.score, observation.prompt_tokens)
        bins = tuple(
            int(np.searchsorted(f.edges, v, side="right"))
            for f, v in zip(self._features, values, strict=True)
        )
        self._window.append(bins)
        self._add(bins, 1)
        if len(self._window) > self._size:
            self._add(self._window.popleft(), -1)
        if len(self._window) == self._size:
            pairs = zip(self._features, self._counts, strict=True)
            self.height = max(float(f.index(c, self._size)) for f, c in pairs)

    def _add(self, bins: tuple[int, ...], weight: int) -> None:
        for counts, place in zip(self._counts, bins, strict=True):
            counts[place] += weight

    def reset(self) -> None:
        self.height = 0.0
        self._window.clear()
        for counts in self._counts:
            counts[:] = 0


@dataclass(frozen=True, slots=True)
class PsiFit:
    """A :class:`drift.detectors.protocol.Fitted`."""

    features: tuple[Feature, ...]
    limits: tuple[float, ...]
    window: int

    def detector(self, level: int = 0) -> PsiDetector:
        return PsiDetector(self.features, self.limits[level], self.window)

    def heights(self, streams: Sample) -> Floats:
        return _heights(streams, self.features, self.window)


@dataclass(frozen=True, slots=True)
class Psi:
    """A :class:`drift.detectors.protocol.Method`."""

    config: PsiConfig = PsiConfig()
    kind: Kind = Kind.COVARIATE

    def fit(
        self, reference: Sample, arl: Sequence[float], bootstrap: BootstrapConfig | None = None
    ) -> PsiFit:
        if reference.prompt_tokens is None:
            raise ValueError("sample.prompt_tokens is needed")
        window = self.config.window
        features = tuple(
            Feature.of(values, self.config.bins)
            for values in (reference.scores, reference.prompt_tokens)
        )
        found = limits(
            partial(_heights, features=features, window=window),
            reference,
            arl,
            bootstrap or BootstrapConfig(),
            memory=window,
        )
        return PsiFit(features, found, window)


def _heights(streams: Sample, features: tuple[Feature, ...], window: int) -> Floats:
    at = streams.columns()
    assert at.prompt_tokens is not None
    found = np.zeros(at.scores.shape)
    if len(at) < window:
        return found
    for feature, values in zip(features, (at.scores, at.prompt_tokens), strict=True):
        bins = np.searchsorted(feature.edges, values, side="right")
        counts = []
        for place in range(len(feature.share)):
            sums = np.cumsum(bins == place, axis=0)
            sums[window:] = sums[window:] - sums[:-window]
            counts.append(sums[window - 1 :])
        index = feature.index(np.stack(counts), window)
        found[window - 1 :] = np.maximum(found[window - 1 :], index)
    return found


def _smooth(counts: Ints, n: int) -> Floats:
    """Shares with half a count more in each bin, so that an empty one has a logarithm."""
    found: Floats = np.asarray((counts + 0.5) / (n + 0.5 * len(counts)), dtype=np.float64)
    return found
