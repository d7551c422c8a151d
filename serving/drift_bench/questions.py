"""The questions, one function each: rows with what was measured and what must be reached."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from drift.detectors.catalogue import CONCORDANCE, PIT
from drift.detectors.protocol import Kind
from serving.drift_bench.bench import MONITOR, Bench, Delays, delays, first, kind_of
from serving.drift_bench.deck import Deck, Index
from serving.drift_bench.half_loss import half_lost
from serving.drift_bench.pool import Pool
from serving.drift_bench.streams import Order
from serving.drift_bench.traffic import Shift, Traffic, Usual

#: Share of the reference tau-b that is left: up to where which delays (median, p95) must be
#: reached, and from where on no alarm is owed.
STRONG, WEAK, HARMLESS = 0.3, 0.55, 0.75
TARGETS = {"strong": (100.0, 220.0), "weak": (200.0, 450.0)}
STATIONARY = dict.fromkeys(Order, 50000.0) | {Order.TOPICS: 25_000.0}
TENANT, RIGHT = (900.0, 1600.0), 0.9
SCALE = (40.0, 60.0)


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


@dataclass(frozen=True, slots=True)
class TenantRow:
    """``own``: the tenants' own charts, ``all``: one for all together. ``right``: share of alarms
    whose first is of the tenant that changed."""

    traffic: str
    chart: str
    left: float
    median: float
    p95: float
    missed: float
    right: float
    target: tuple[float, float]

    @property
    def met(self) -> bool:
        good = self.median <= self.target[0] and self.p95 <= self.target[1]
        return good and self.right >= RIGHT


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

    @property
    def met(self) -> bool | None:
        if self.target is not None:
            return self.median <= self.target[0] and self.p95 <= self.target[1]
        if self.kind != Kind.RANK:
            return None
        return self.alarmed <= self.chance + _noise(self.chance)


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


def strength(left: float) -> str:
    """Which delays a shift owes: strong, weak, between (none stated), harmless (none owed)."""
    if left <= STRONG:
        return "strong"
    if left <= WEAK:
        return "weak"
    return "between" if left < HARMLESS else "harmless"


def left_of(bench: Bench, shift: Shift, usual: Usual) -> float:
    """Share of the reference's tau-b that the shifted traffic keeps."""
    limit = bench.config.limit
    return shift.pool.served(limit).tau / usual.reference.served(limit).tau


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
        between, low, high = _between(count, watched)
        rows.append(
            StationaryRow(
                order,
                name,
                kind_of(name),
                count,
                watched,
                between,
                low,
                high,
                STATIONARY[order],
                *streams.held,
                streams.late,
            )  # fmt: skip
        )
    return rows


def abrupt(bench: Bench, traffic: Traffic, shift: Shift, order: Order) -> list[DelayRow]:
    """Usual traffic, then at once nothing but the other."""
    config, usual = bench.config, traffic.usual[shift.usual]
    deck = Deck.of(usual.test.served(config.limit), shift.pool.served(config.limit))
    after = config.queued_after if order.queued else config.after

    def draw(rng: np.random.Generator) -> Index:
        return np.r_[deck.before(config.before, rng), deck.after(after, rng)]

    streams = bench.streams(deck, order, draw, config.before, ("abrupt", shift.name))
    left = left_of(bench, shift, usual)
    rows = []
    for name, alarms in bench.alarms(bench.fits(usual, order), streams).items():
        d, kind = delays(alarms, streams.before), kind_of(name)
        target = TARGETS.get(strength(left)) if kind is Kind.RANK else None
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
            )  # fmt: skip
        )
    return rows


def gradual(bench: Bench, traffic: Traffic, shift: Shift) -> list[GradualRow]:
    """The share of other traffic grows from none to all."""
    config, usual = bench.config, traffic.usual[shift.usual]
    before, after = usual.test.served(config.limit), shift.pool.served(config.limit)
    deck = Deck.of(before, after)

    def draw(rng: np.random.Generator) -> Index:
        changed = rng.random(config.mixing) < np.arange(config.mixing) / config.mixing
        mixed = np.where(changed, deck.after(config.mixing, rng), deck.before(config.mixing, rng))
        return np.r_[deck.before(config.before, rng), mixed]

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
    ahead = min(int((p < before).sum()) for replay in places for p in replay)
    behind = min(int((p >= before).sum()) for replay in places for p in replay)
    cut = [
        [p[np.searchsorted(p, before) - ahead :][: ahead + behind] for p in replay]
        for replay in places
    ]
    own = np.stack([index[r][p] for r, replay in enumerate(cut) for p in replay], axis=1)
    alarms = fit.heights(deck.sample.take(own)) >= fit.limits[0]
    found, right, early = [], 0, 0
    for r, replay in enumerate(cut):
        mine = alarms[:, r * count : (r + 1) * count]
        if mine[:ahead].any():
            early += 1
            continue
        at = [
            p[ahead + int(a.argmax())] - before + 1.0 if a.any() else math.inf
            for p, a in zip(replay, mine[ahead:].T, strict=True)
        ]
        found.append(min(at))
        right += math.isfinite(min(at)) and int(np.argmin(at)) == 0
    apart = Delays.of(np.array(found), early / config.replays)
    left = left_of(bench, shift, usual)
    alarmed = int(np.isfinite(found).sum())
    return [
        TenantRow(
            shift.name, "own", left, apart.median, apart.p95, apart.missed,
            right / max(1, alarmed), TENANT,
        ),
        TenantRow(
            shift.name, "all", left, together.median, together.p95, together.missed, math.nan,
            TENANT,
        ),
    ]  # fmt: skip


def scale(bench: Bench, traffic: Traffic, factor: float) -> list[ScaleRow]:
    """The same prompts in the same order, all answers ``factor`` times as long."""
    config, usual = bench.config, traffic.chat
    fits = bench.fits(usual, Order.INDEPENDENT)
    found: dict[float, dict[str, Delays]] = {}
    for times in (1.0, factor):
        deck = Deck.of(usual.test.served(config.limit), usual.test.served(config.limit, times))

        def draw(rng: np.random.Generator, deck: Deck = deck) -> Index:
            return np.r_[deck.before(config.before, rng), deck.after(config.after, rng)]

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
            SCALE if name == PIT else None,
        )
        for name, d in found[factor].items()
    ]


def censoring(bench: Bench, traffic: Traffic, cut: float) -> list[CensoringRow]:
    """A limit that cuts off a share ``cut`` of usual answers, and then order is lost: the same
    answers to forecasts of other prompts."""
    usual, rows = traffic.chat, []
    limit = int(np.quantile(usual.reference.tokens, 1.0 - cut))
    plain = _lost(bench, usual, bench.config.limit)
    capped = _lost(bench, usual, limit)
    for name, (delay, _) in plain.items():
        after, between = capped[name]
        rows.append(
            CensoringRow("order lost", cut, name, after.median, after.p95, delay.median, between)
        )
    return rows


def _lost(bench: Bench, usual: Usual, limit: int) -> dict[str, tuple[Delays, float]]:
    """By rank detector: delays after all order is lost, and outcomes between false alarms."""
    config, test = bench.config, usual.test.served(limit)
    mixed = bench.rng("shuffle").permutation(len(test))
    shuffled = replace(test, scores=test.scores[mixed], quantiles=test.quantiles[mixed])
    deck, calm = Deck.of(test, shuffled), Deck.of(test)

    def draw(rng: np.random.Generator) -> Index:
        return np.r_[deck.before(config.before, rng), deck.after(config.after, rng)]

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
            found[name] = (delays(alarms, streams.before), _between(count, int(watched))[0])
    return found


def _between(alarms: int, outcomes: int) -> tuple[float, float, float]:
    """Outcomes per alarm with the exact 95 % interval of a Poisson count."""
    from scipy.stats import chi2

    high = outcomes / (chi2.ppf(0.025, 2 * alarms) / 2) if alarms else math.inf
    low = outcomes / (chi2.ppf(0.975, 2 * alarms + 2) / 2)
    return (outcomes / alarms if alarms else math.inf), float(low), float(high)


def _noise(chance: float, replays: int = 200) -> float:
    """Two standard errors of a share near ``chance``, and never less than for one in a hundred."""
    p = max(chance, 0.01)
    return 2.0 * math.sqrt(2.0 * p * (1.0 - p) / replays)


__all__ = [
    "MONITOR", "CensoringRow", "DelayRow", "GradualRow", "Pool", "ScaleRow", "StationaryRow",
    "TenantRow", "abrupt", "censoring", "gradual", "scale", "stationary", "strength", "tenants",
]  # fmt: skip
