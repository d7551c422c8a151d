"""How rare are alarms while nothing has changed?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from serving.drift_bench.bench import Bench, first, kind_of
from serving.drift_bench.deck import Deck
from serving.drift_bench.streams import Order
from serving.drift_bench.traffic import Traffic

#: Outcomes between false alarms.
TARGETS = dict.fromkeys(Order, 50000.0) | {Order.TOPICS: 25_000.0}


@dataclass(frozen=True, slots=True)
class StationaryRow:
    """``outcomes``: watched until the first alarm of each replay, or its end. ``between``: outcomes
    per alarm, the maximum-likelihood one; infinite without alarms. ``low`` and ``high``: its 95 %
    interval, counts being Poisson (F. Garwood, Biometrika 28, 1936)."""

    order: str
    detector: str
    kind: str
    alarms: int
    outcomes: int
    between: float
    low: float
    high: float
    target: float
    held_median: float
    held_p95: float
    late: float

    @property
    def met(self) -> bool:
        return self.between >= self.target


def stationary(bench: Bench, traffic: Traffic, order: Order) -> list[StationaryRow]:
    """False alarms on test rows of the usual traffic."""
    config, usual = bench.config, traffic.chat
    deck = Deck.of(usual.test.served(config.limit))
    streams = bench.streams(
        deck,
        order,
        lambda rng: deck.before(config.stationary, rng),
        config.stationary,
        ("stationary", usual.name),
    )
    rows = []
    for name, alarms in bench.alarms(bench.fits(usual, order), streams).items():
        count = int(alarms.any(axis=0).sum())
        watched = int(np.minimum(first(alarms), len(alarms)).sum())
        apart, low, high = between(count, watched)
        rows.append(
            StationaryRow(
                order,
                name,
                kind_of(name),
                count,
                watched,
                apart,
                low,
                high,
                TARGETS[order],
                *streams.held,
                streams.late,
            )
        )
    return rows


def between(alarms: int, outcomes: int) -> tuple[float, float, float]:
    """Outcomes per alarm with the exact 95 % interval of a Poisson count."""
    from scipy.stats import chi2

    high = outcomes / (chi2.ppf(0.025, 2 * alarms) / 2) if alarms else math.inf
    low = outcomes / (chi2.ppf(0.975, 2 * alarms + 2) / 2)
    return (outcomes / alarms if alarms else math.inf), float(low), float(high)
