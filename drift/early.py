"""A first look at order, by outcomes as they end: before order of arrival is back.

The chart of a stream takes outcomes in order of arrival, since under shortest first those of
similar forecasts end together, and agree less without any drift. Waiting for that order is most of
an alarm's delay. This chart does not wait. It compares unlike forecasts alone: which of two such
lengths is longer does not depend on what the queue did, since it knew no more than the forecasts.
Where neighbours are all alike, in a deep queue or because the ranker says the same of everybody,
there is nothing to compare, and it stands still. It climbs when concordance has fallen much further
than an alarm asks for, and what it says is good for caution only (``drift.acting``): it moves no
state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drift.detectors.bootstrap import BootstrapConfig, excursion_limits, resampled
from drift.detectors.concordance import Concordance, agreements
from drift.detectors.cusum import Cusum, cusums
from drift.detectors.sample import Floats, Sample

_DRAWN = 4096  # pairs of forecasts, to see how far they lie apart


@dataclass(frozen=True, slots=True)
class EarlyConfig:
    """``neighbours``: outcomes that each one is compared with. ``alike``: share of pairs of
    forecasts, those that lie nearest, that is left out. ``share``: of the reference concordance of
    the others, below which the chart climbs. ``arl``: mean outcomes between its false alarms.
    ``silent``: outcomes without any pair after which it says nothing.
    """

    neighbours: int = 32
    alike: float = 0.3
    share: float = 0.4
    arl: float = 100_000.0
    silent: int = 128

    def __post_init__(self) -> None:
        for name in ("neighbours", "silent"):
            if getattr(self, name) < 1:
                raise ValueError(f"early.{name} must be >= 1, got {getattr(self, name)}")
        for name in ("alike", "share"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"early.{name} must lie inside (0, 1), got {getattr(self, name)}")
        if not self.arl > 1.0:
            raise ValueError(f"early.arl must be above 1, got {self.arl}")


@dataclass(frozen=True, slots=True)
class EarlyFit:
    """What a reference gave. ``gap``: difference of scores from which two forecasts are unlike;
    ``allowance``: concordance below which the chart climbs; ``pairs``: decided ones of an outcome
    on average; ``limit``: height that is reached once in the configured number of outcomes."""

    gap: float
    allowance: float
    pairs: float
    limit: float

    @classmethod
    def of(cls, sample: Sample, config: EarlyConfig, size: BootstrapConfig) -> EarlyFit | None:
        """From a reference; ``None`` when its unlike forecasts order no better than chance. As in
        the stream's own chart the reference is taken to be a standard error worse than measured."""
        rng = np.random.default_rng(size.seed)
        drawn = rng.choice(sample.scores, (2, _DRAWN))
        gap = float(np.quantile(np.abs(drawn[0] - drawn[1]), config.alike))
        if not gap > 0.0:
            return None

        def compared(streams: Sample) -> tuple[Floats, Floats]:
            at = streams.columns()
            found = agreements(at.scores, at.tokens, at.censored, config.neighbours, gap)
            return found[0].astype(np.float64), found[1].astype(np.float64)

        total, pairs = compared(sample)
        many = float(pairs.mean())
        if not many:
            return None
        copies, of_copies = compared(resampled(sample, 100, len(sample), max(size.blocks), rng))
        error = float(np.std(copies.sum(axis=0) / np.maximum(of_copies.sum(axis=0), 1.0)))
        cautious = float(total.sum() / pairs.sum()) - error
        if cautious <= 0.0:
            return None
        allowance, limit = config.share * cautious, 0.0
        for block in size.blocks:
            streams = resampled(sample, size.streams, size.length, block, rng)
            total, pairs = compared(streams)
            total -= (total.sum() / max(pairs.sum(), 1.0) - cautious) * pairs
            charts = cusums((allowance * pairs - total) / many)
            flat = allowance * config.neighbours  # as of the stream's own chart
            limit = max(limit, *excursion_limits(charts, (config.arl,), flat))
        return cls(gap, allowance, many, limit)


class Early:
    """``lost``: order seems to be, from when the chart reaches its limit until it is back at zero,
    or until there is nothing to compare for long. Nothing is said before there is a fit; the first
    outcomes after it have too few before them, and are not judged."""

    def __init__(self, config: EarlyConfig) -> None:
        self.lost = False
        self._config = config
        self._fit: EarlyFit | None = None
        self._chart = Cusum(0.0)
        self._concordance = Concordance(config.neighbours)
        self._unseen = self._quiet = 0

    def use(self, fit: EarlyFit | None) -> None:
        """Go by ``fit`` from now on, from the beginning."""
        self._fit, self.lost = fit, False
        if fit is not None:
            self._chart = Cusum(fit.limit)
            self._concordance = Concordance(self._config.neighbours, fit.gap)
            self._unseen, self._quiet = self._config.neighbours, 0

    def update(self, score: float, tokens: int, censored: bool) -> None:
        """A scored outcome has come, whenever it arrived; ``tokens`` are a lower bound when
        ``censored``."""
        fit = self._fit
        if fit is None:
            return
        total, pairs = self._concordance.agreement(score, tokens, censored)
        if self._unseen:
            self._unseen -= 1
            return
        self._quiet = 0 if pairs else self._quiet + 1
        self._chart.add((fit.allowance * pairs - total) / fit.pairs)
        if self._quiet >= self._config.silent:
            self._chart.reset()
        if self._chart.value >= fit.limit:
            self.lost = True
        elif self._chart.value == 0.0:
            self.lost = False
