"""How soon is an abrupt shift noticed?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drift.detectors.protocol import Kind
from serving.drift_bench.bench import Bench, delays, kind_of
from serving.drift_bench.deck import Deck, Index
from serving.drift_bench.questions.targets import DELAYS, left_of, strength
from serving.drift_bench.streams import Order
from serving.drift_bench.traffic import Shift, Traffic


@dataclass(frozen=True, slots=True)
class DelayRow:
    """``left``: share of the reference tau-b. ``target``: median and p95, none when nothing is
    owed."""

    traffic: str
    order: str
    detector: str
    kind: str
    left: float
    median: float
    p95: float
    missed: float
    early: float
    target: tuple[float, float] | None
    held_median: float = 0.0
    held_p95: float = 0.0

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.median <= self.target[0] and self.p95 <= self.target[1]


def abrupt(bench: Bench, traffic: Traffic, shift: Shift, order: Order) -> list[DelayRow]:
    """Usual traffic, then at once nothing but the other."""
    config, usual = bench.config, traffic.usual[shift.usual]
    deck = Deck.of(usual.test.served(config.limit), shift.pool.served(config.limit))
    after = config.queued_after if order.queued else config.after

    def draw(rng: np.random.Generator) -> Index:
        return deck.change(config.before, after, rng)

    streams = bench.streams(deck, order, draw, config.before, ("abrupt", shift.name))
    left = left_of(bench, shift, usual)
    rows = []
    for name, alarms in bench.alarms(bench.fits(usual, order), streams).items():
        d, kind = delays(alarms, streams.before), kind_of(name)
        target = DELAYS.get(strength(left)) if kind is Kind.RANK else None
        rows.append(
            DelayRow(
                shift.name,
                order,
                name,
                kind,
                left,
                d.median,
                d.p95,
                d.missed,
                d.early,
                target,
                *streams.held,
            )
        )
    return rows
