"""What all questions share: fitted detectors, replayed streams, alarms and delays."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from drift.detectors.catalogue import CONCORDANCE, TAU_WINDOW, methods
from drift.detectors.protocol import Fitted, Kind
from drift.detectors.sample import Sample
from serving.drift_bench.config import BenchConfig
from serving.drift_bench.deck import Deck, Index
from serving.drift_bench.streams import Order, release, topics
from serving.drift_bench.traffic import Usual

#: Both rank detectors of the monitor together, as it uses them.
MONITOR = "monitor"

#: Rows of one replay in order of arrival.
Draw = Callable[[np.random.Generator], Index]


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    """Replays in step, [time, replays]; the change is after ``before`` outcomes.

    ``held`` and ``late``: the price of order. Completions that an outcome waits, median and 95th
    percentile, and the share that came too late.
    """

    sample: Sample
    before: int
    held: tuple[float, float] = (0.0, 0.0)
    late: float = 0.0


@dataclass(frozen=True, slots=True)
class Delays:
    """Outcomes from a change to the alarm; infinite when there was none. ``missed``: share of
    replays without one. ``early``: share left out because the alarm came before the change."""

    median: float
    p95: float
    missed: float
    early: float

    @classmethod
    def of(cls, first: NDArray[np.float64], early: float) -> Delays:
        if not len(first):
            return cls(np.nan, np.nan, np.nan, early)
        low, high = np.quantile(first, [0.5, 0.95], method="inverted_cdf")
        return cls(float(low), float(high), float(np.isinf(first).mean()), early)


@dataclass(slots=True)
class Bench:
    """``only``: names of detectors, all when empty."""

    config: BenchConfig
    only: tuple[str, ...] = ()
    _fits: dict[tuple[str, Order, int], dict[str, Fitted]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := [n for n in self.only if n not in (*methods(), MONITOR)]:
            known = ", ".join((*methods(), MONITOR))
            raise ValueError(f"only: no detector {unknown[0]!r}; there are {known}")

    def rng(self, *about: object) -> np.random.Generator:
        """A generator that depends on the seed and on what it is for, and on nothing else."""
        return np.random.default_rng([self.config.seed, zlib.crc32(repr(about).encode())])

    def fits(self, usual: Usual, order: Order, limit: int = 0) -> dict[str, Fitted]:
        """Detectors that learned from the reference rows of ``usual`` in that order, by name."""
        limit = limit or self.config.limit
        key = (usual.name, order, limit)
        if key not in self._fits:
            reference = self.reference(usual, order, limit)
            wanted = set(self.only or methods())
            if MONITOR in wanted:
                wanted |= {CONCORDANCE, TAU_WINDOW}
            self._fits[key] = {
                name: method.fit(reference, (self.config.arl,))
                for name, method in methods().items()
                if name in wanted
            }
        return self._fits[key]

    def reference(self, usual: Usual, order: Order, limit: int) -> Sample:
        """Every reference row once, as it would have been logged; with topics at least
        ``config.reference`` draws."""
        config, deck = self.config, Deck.of(usual.reference.served(limit))
        rng = self.rng("reference", usual.name, order)
        if order is Order.TOPICS:
            count = max(config.reference, deck.usual)
            rows = self._arranged(deck, order, deck.before(count, rng), rng)
        else:
            rows = rng.permutation(deck.usual)
        kept = release(rows, deck, order, config.streams, rng).place
        return deck.sample.take(rows[kept])

    def streams(
        self, deck: Deck, order: Order, draw: Draw, before: int, about: tuple[object, ...]
    ) -> Streams:
        """``config.replays`` streams of rows of ``deck`` whose first ``before`` arrivals precede
        the change. Replays keep the same number of outcomes on either side of it."""
        config = self.config
        found: list[tuple[Index, Index]] = []
        held: list[Index] = []
        late = 0.0
        for replay in range(config.replays):
            rng = self.rng(*about, order, replay)
            rows = self._arranged(deck, order, draw(rng), rng)
            got = release(rows, deck, order, config.streams, rng)
            kept = rows[got.place]
            split = int(np.searchsorted(got.place, before))
            found.append((kept[:split], kept[split:]))
            held.append(got.held)
            late += got.late / config.replays
        ahead, behind = (min(len(part[i]) for part in found) for i in (0, 1))
        index = np.stack([np.r_[a[len(a) - ahead :], b[:behind]] for a, b in found], axis=1)
        low, high = np.quantile(np.concatenate(held), [0.5, 0.95])
        return Streams(deck.sample.take(index), ahead, (float(low), float(high)), late)

    def alarms(self, fits: dict[str, Fitted], streams: Streams) -> dict[str, NDArray[np.bool_]]:
        """Whether each detector is above its limit, [time, replays], by name; no-drift never."""
        found = {name: fit.heights(streams.sample) >= fit.limits[0] for name, fit in fits.items()}
        if CONCORDANCE in found and TAU_WINDOW in found:
            found = {MONITOR: found[CONCORDANCE] | found[TAU_WINDOW], **found}
        return {name: a for name, a in found.items() if not self.only or name in self.only}

    def _arranged(self, deck: Deck, order: Order, rows: Index, rng: np.random.Generator) -> Index:
        if order is not Order.TOPICS:
            return rows
        scores = deck.pool.scores[: deck.usual]
        return topics(rows, scores, self.config.streams, int(rng.integers(2**31)))


def delays(alarms: NDArray[np.bool_], before: int) -> Delays:
    """From the change to the first alarm after it, over replays without one before it."""
    calm = ~alarms[:before].any(axis=0)
    return Delays.of(first(alarms[before:, calm]), float(1.0 - calm.mean()))


def first(alarms: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Number of outcomes up to each stream's first alarm, infinite without one."""
    return np.where(alarms.any(axis=0), alarms.argmax(axis=0) + 1.0, np.inf)


def kind_of(name: str) -> Kind:
    """What an alarm of that detector means."""
    return Kind.RANK if name == MONITOR else methods()[name].kind
