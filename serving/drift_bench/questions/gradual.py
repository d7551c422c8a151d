"""Is a slow mixture noticed before half of what ranking is worth is gone?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drift.detectors.protocol import Kind
from serving.drift_bench.bench import Bench, delays, kind_of
from serving.drift_bench.deck import Deck, Index
from serving.drift_bench.half_loss import half_lost
from serving.drift_bench.questions.targets import left_of
from serving.drift_bench.streams import Order
from serving.drift_bench.traffic import Shift, Traffic


@dataclass(frozen=True, slots=True)
class GradualRow:
    """``half``: outcomes after which half of the SJF efficiency is lost; infinite when it never
    is, as mixtures are no interpolations."""

    traffic: str
    detector: str
    left: float
    median: float
    p95: float
    missed: float
    half: float

    @property
    def met(self) -> bool | None:
        return self.p95 <= self.half if math.isfinite(self.half) else None


def gradual(bench: Bench, traffic: Traffic, shift: Shift) -> list[GradualRow]:
    """The share of other traffic grows from none to all."""
    config, usual = bench.config, traffic.usual[shift.usual]
    before, after = usual.test.served(config.limit), shift.pool.served(config.limit)
    deck = Deck.of(before, after)

    def draw(rng: np.random.Generator) -> Index:
        changed = rng.random(config.mixing) < np.arange(config.mixing) / config.mixing
        mixed = np.where(changed, deck.after(config.mixing, rng), deck.before(config.mixing, rng))
        return np.concatenate([deck.before(config.before, rng), mixed])

    streams = bench.streams(deck, Order.INDEPENDENT, draw, config.before, ("gradual", shift.name))
    half = config.mixing * half_lost(
        before, after, config.streams.engine, bench.rng("half", shift.name)
    )
    left, rows = left_of(bench, shift, usual), []
    for name, alarms in bench.alarms(bench.fits(usual, Order.INDEPENDENT), streams).items():
        if kind_of(name) is Kind.RANK:
            d = delays(alarms, streams.before)
            rows.append(GradualRow(shift.name, name, left, d.median, d.p95, d.missed, half))
    return rows
