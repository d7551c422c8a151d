"""Does it cost anything that answers are cut off?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from drift.detectors.protocol import Kind
from serving.drift_bench.bench import Bench, Delays, delays, first, kind_of
from serving.drift_bench.deck import Deck, Index
from serving.drift_bench.questions.stationary import between
from serving.drift_bench.streams import Order
from serving.drift_bench.traffic import Traffic, Usual


@dataclass(frozen=True, slots=True)
class CensoringRow:
    """``cut``: share of usual answers that the limit cuts off. ``between`` is as in
    :class:`StationaryRow`, ``plain`` the median delay without a limit."""

    traffic: str
    cut: float
    detector: str
    median: float
    p95: float
    plain: float
    between: float

    @property
    def met(self) -> bool:
        return self.median <= 1.15 * self.plain and self.between >= 50_000.0


def censoring(bench: Bench, traffic: Traffic, cut: float) -> list[CensoringRow]:
    """A limit that cuts off a share ``cut`` of usual answers, and then order is lost: the same
    answers to forecasts of other prompts."""
    usual, rows = traffic.chat, []
    limit = int(np.quantile(usual.reference.tokens, 1.0 - cut))
    plain = _lost(bench, usual, bench.config.limit)
    capped = _lost(bench, usual, limit)
    for name, (delay, _) in plain.items():
        after, apart = capped[name]
        rows.append(
            CensoringRow("order lost", cut, name, after.median, after.p95, delay.median, apart)
        )
    return rows


def _lost(bench: Bench, usual: Usual, limit: int) -> dict[str, tuple[Delays, float]]:
    """By rank detector: delays after all order is lost, and outcomes between false alarms."""
    config, test = bench.config, usual.test.served(limit)
    mixed = bench.rng("shuffle").permutation(len(test))
    shuffled = replace(test, scores=test.scores[mixed], quantiles=test.quantiles[mixed])
    deck, calm = Deck.of(test, shuffled), Deck.of(test)

    def draw(rng: np.random.Generator) -> Index:
        return deck.change(config.before, config.after, rng)

    fits = bench.fits(usual, Order.INDEPENDENT, limit)
    streams = bench.streams(deck, Order.INDEPENDENT, draw, config.before, ("censoring",))
    still = bench.streams(
        calm,
        Order.INDEPENDENT,
        lambda rng: calm.before(config.stationary, rng),
        config.stationary,
        ("censoring", "still"),
    )
    quiet = bench.alarms(fits, still)
    found = {}
    for name, alarms in bench.alarms(fits, streams).items():
        if kind_of(name) is Kind.RANK:
            watched = np.minimum(first(quiet[name]), len(quiet[name])).sum()
            count = int(quiet[name].any(axis=0).sum())
            found[name] = (delays(alarms, streams.before), between(count, int(watched))[0])
    return found
