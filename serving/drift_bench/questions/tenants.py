"""Is one tenant among many noticed, and is it the right one?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drift.detectors.catalogue import CONCORDANCE
from serving.drift_bench.bench import Bench, Delays, delays
from serving.drift_bench.deck import Deck
from serving.drift_bench.questions.targets import left_of
from serving.drift_bench.streams import Order
from serving.drift_bench.traffic import Shift, Traffic

#: Median and 95th percentile, outcomes of all tenants; share of right names.
TARGET, RIGHT = (900.0, 1600.0), 0.9


@dataclass(frozen=True, slots=True)
class TenantRow:
    """``own``: the tenants' own charts, ``all``: one for all together, to compare with. ``right``:
    share of alarms whose first is of the tenant that changed."""

    traffic: str
    chart: str
    left: float
    median: float
    p95: float
    missed: float
    right: float
    target: tuple[float, float] | None

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        good = self.median <= self.target[0] and self.p95 <= self.target[1]
        return good and self.right >= RIGHT


def tenants(bench: Bench, traffic: Traffic, shift: Shift) -> list[TenantRow]:
    """One of equal tenants changes; each has the default detector of its own, and all share one."""
    config, usual = bench.config, traffic.usual[shift.usual]
    deck = Deck.of(usual.test.served(config.limit), shift.pool.served(config.limit))
    fit = bench.fits(usual, Order.INDEPENDENT)[CONCORDANCE]
    count, before = config.tenants, 150 * config.tenants
    total = before + 300 * config.tenants
    index, who = [], []
    for replay in range(config.replays):
        rng = bench.rng("tenants", shift.name, replay)
        tenant = rng.integers(0, count, total)
        changed = (tenant == 0) & (np.arange(total) >= before)
        rows = np.where(changed, deck.after(total, rng), deck.before(total, rng))
        index.append(rows)
        who.append(tenant)
    everything = deck.sample.take(np.stack(index, axis=1))
    together = delays(fit.heights(everything) >= fit.limits[0], before)
    # The tenants' outcomes side by side: as many on either side of the change as all of them have.
    places = [[np.flatnonzero(tenant == k) for k in range(count)] for tenant in who]
    ahead = min(int((p < before).sum()) for each in places for p in each)
    behind = min(int((p >= before).sum()) for each in places for p in each)
    cut = [
        [p[np.searchsorted(p, before) - ahead :][: ahead + behind] for p in each] for each in places
    ]
    own = np.stack([index[r][p] for r, each in enumerate(cut) for p in each], axis=1)
    alarms = fit.heights(deck.sample.take(own)) >= fit.limits[0]
    found, right, early = [], 0, 0
    for r, kept in enumerate(cut):
        mine = alarms[:, r * count : (r + 1) * count]
        if mine[:ahead].any():
            early += 1
            continue
        at = [
            p[ahead + int(a.argmax())] - before + 1.0 if a.any() else math.inf
            for p, a in zip(kept, mine[ahead:].T, strict=True)
        ]
        found.append(min(at))
        right += math.isfinite(min(at)) and int(np.argmin(at)) == 0
    apart = Delays.of(np.array(found), early / config.replays)
    left = left_of(bench, shift, usual)
    alarmed = int(np.isfinite(found).sum())
    return [
        TenantRow(
            shift.name, "own", left, apart.median, apart.p95, apart.missed,
            right / max(1, alarmed), TARGET,
        ),
        TenantRow(
            shift.name, "all", left, together.median, together.p95, together.missed, math.nan,
            None,
        ),
    ]  # fmt: skip
