"""How much other traffic it takes until half of what ranking is worth is gone."""

from __future__ import annotations

import math

import numpy as np

from drift.efficiency import ReplayConfig, efficiency
from serving.drift_bench.deck import Deck
from serving.drift_bench.pool import Pool

SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def half_lost(
    usual: Pool,
    other: Pool,
    config: ReplayConfig,
    rng: np.random.Generator,
    outcomes: int = 1000,
) -> float:
    """Share of ``other`` in the mixture at which the SJF efficiency of mean E2EL falls to half that
    of ``usual``, linear between :data:`SHARES`; infinite when it never does.

    Each mixture of ``outcomes`` is replayed through the real scheduler. The order of draws is the
    same for all, so that they differ by the mixture alone.
    """
    deck = Deck.of(usual, other)
    before, after = deck.before(outcomes, rng), deck.after(outcomes, rng)
    place = rng.random(outcomes)
    found: list[float] = []
    for share in SHARES:
        worth = efficiency(deck.outcomes(np.where(place < share, after, before)), config)
        found.append(math.nan if worth is None else worth.e2el)
        if found[-1] <= found[0] / 2.0:
            low, high = found[-2], found[-1]
            step = SHARES[len(found) - 1] - SHARES[len(found) - 2]
            part = (low - found[0] / 2.0) / (low - high)
            return SHARES[len(found) - 2] + part * step
    return math.inf
