"""Is a mere change of scale called one, and nothing else?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drift.detectors.catalogue import PIT
from drift.detectors.protocol import Kind
from serving.drift_bench.bench import Bench, Delays, delays, kind_of
from serving.drift_bench.deck import Deck, Index
from serving.drift_bench.streams import Order
from serving.drift_bench.traffic import Traffic

#: Median and 95th percentile, scored arrivals.
TARGET = (40.0, 60.0)


@dataclass(frozen=True, slots=True)
class ScaleRow:
    """``alarmed``: share of replays that alarm at all; ``chance``: the same without any change."""

    factor: float
    detector: str
    kind: str
    median: float
    p95: float
    alarmed: float
    chance: float
    target: tuple[float, float] | None
    replays: int

    @property
    def met(self) -> bool | None:
        if self.target is not None:
            return self.median <= self.target[0] and self.p95 <= self.target[1]
        if self.kind != Kind.RANK:
            return None
        return self.alarmed <= self.chance + _noise(self.chance, self.replays)


def scale(bench: Bench, traffic: Traffic, factor: float) -> list[ScaleRow]:
    """The same prompts in the same order, all answers ``factor`` times as long."""
    config, usual = bench.config, traffic.chat
    fits = bench.fits(usual, Order.INDEPENDENT)
    found: dict[float, dict[str, Delays]] = {}
    for times in (1.0, factor):
        deck = Deck.of(usual.test.served(config.limit), usual.test.served(config.limit, times))

        def draw(rng: np.random.Generator, deck: Deck = deck) -> Index:
            return deck.change(config.before, config.after, rng)

        streams = bench.streams(deck, Order.INDEPENDENT, draw, config.before, ("scale",))
        alarms = bench.alarms(fits, streams)
        found[times] = {name: delays(a, streams.before) for name, a in alarms.items()}
    return [
        ScaleRow(
            factor,
            name,
            kind_of(name),
            d.median,
            d.p95,
            1.0 - d.missed,
            1.0 - found[1.0][name].missed,
            TARGET if name == PIT else None,
            config.replays,
        )
        for name, d in found[factor].items()
    ]


def _noise(chance: float, replays: int) -> float:
    """Two standard errors of a share near ``chance``, and never less than for one in a hundred."""
    p = max(chance, 0.01)
    return 2.0 * math.sqrt(2.0 * p * (1.0 - p) / replays)
