"""Is a forecast honest: calibrated, as flat as the truth, harmless to a queue?

A small model's lengths are mostly chance, so that its ranker cannot be accurate. It can say so:
then its numbers hold, prompts get about the same forecast, and the default policy does about what
FCFS does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.arrivals import renewal
from engine.core.policies import Fcfs, make
from engine.simulator import simulate
from ranker.metrics import ceiling, coverage
from ranker.survival import weighted_quantiles
from ranker.types import Forecast
from training.draws import Draws
from training.gate.bursts import replay, replayable
from training.gate.config import BurstConfig
from training.sources import Example, Lengths

#: Rows, and prompts with several draws, below which nothing is said of them.
LEAST_ROWS = 50

_TENTHS = 10
_POLICY = "boost:tier=0.12,k=4"


@dataclass(frozen=True, slots=True)
class HonestyConfig:
    """Bounds: how far coverage of p50 and p90 may be off, how much wider, in log tokens, forecasts
    may spread than lengths do, and by what share the default policy's mean and p99 latency may
    exceed those of FCFS: an order that helps most has some wait longer, few and not much.
    """

    coverage: float = 0.03
    spread: float = 0.25
    mean: float = 0.01
    p99: float = 0.1
    bursts: BurstConfig = field(default_factory=lambda: BurstConfig(bursts=12, utilisation=1.0))


@dataclass(frozen=True, slots=True)
class Honesty:
    """``p50`` and ``p90``: shares of answers at or below the forecast quantile.

    The spreads are ``ln(high / low)`` of medians, in log tokens, between the tenth of the prompts
    that come first and the tenth that come last: ``forecast`` of forecasts, ordered by score;
    ``realised`` of the lengths of the same prompts; ``allowed`` of what prompts themselves decide
    of their lengths, by how far two draws of one agree. NaN without enough draws.

    ``mean`` and ``p99``: end-to-end latencies under the default policy by those under FCFS, mean
    over bursts.
    """

    p50: float
    p90: float
    forecast: float
    realised: float
    allowed: float
    mean: float
    p99: float
    config: HonestyConfig = field(default_factory=HonestyConfig, repr=False)

    @property
    def calibrated(self) -> bool:
        return max(abs(self.p50 - 0.5), abs(self.p90 - 0.9)) <= self.config.coverage

    @property
    def flat(self) -> bool:
        """Whether forecasts differ no more than what came true of them, nor than draws allow."""
        truth = np.nanmin([self.realised, self.allowed])
        return bool(self.forecast <= truth + self.config.spread)

    @property
    def harmless(self) -> bool:
        c = self.config
        return self.mean <= 1.0 + c.mean and self.p99 <= 1.0 + c.p99

    def metrics(self, prefix: str) -> dict[str, float]:
        """Numbers and verdicts (0 or 1) for a run record, as ``prefix.honesty.flat`` and so on;
        what is undefined is left out."""
        names = ("p50", "p90", "forecast", "realised", "allowed", "mean", "p99")
        verdicts = ("calibrated", "flat", "harmless")
        numbers = {name: float(getattr(self, name)) for name in (*names, *verdicts)}
        return {f"{prefix}.honesty.{k}": v for k, v in numbers.items() if not math.isnan(v)}

    def __str__(self) -> str:
        def said(holds: bool, word: str) -> str:
            return word if holds else f"not {word}"

        draws = "" if math.isnan(self.allowed) else f" of {self.allowed:.2f} that two draws allow"
        return (
            f"{said(self.calibrated, 'calibrated')}: {self.p50:.1%} of answers at or below the "
            f"median, {self.p90:.1%} below p90; {said(self.flat, 'as flat as the truth')}: "
            f"lowest and highest tenth are {self.forecast:.2f} log tokens apart, their lengths "
            f"{self.realised:.2f}{draws}; {said(self.harmless, 'harmless')}: mean latency "
            f"{self.mean:.3f} and p99 {self.p99:.3f} of FCFS's"
        )


def honesty(
    forecasts: Sequence[Forecast],
    examples: Sequence[Example],
    config: HonestyConfig | None = None,
    *,
    seed: int = 0,
) -> Honesty:
    """Of one ranker's ``forecasts`` of ``examples``, in order, draws of one prompt included.

    Raises ``ValueError`` when the two differ in length or there are fewer than 50 rows.
    """
    if len(forecasts) != len(examples) or len(examples) < LEAST_ROWS:
        raise ValueError(f"honesty needs one forecast per example, at least {LEAST_ROWS}")
    config = config or HonestyConfig()
    lengths = Lengths.of(examples)
    two = np.array([[f.quantile(0.5), f.quantile(0.9)] for f in forecasts])
    (p50, p90), _ = coverage(two, lengths.tokens, lengths.censored, (0.5, 0.9))
    order = np.argsort([f.score for f in forecasts], kind="stable")
    medians, none = two[:, 0], np.zeros(len(two), np.bool_)
    mean, p99 = _against_fcfs(forecasts, examples, config.bursts, np.random.default_rng(seed))
    return Honesty(
        p50=float(p50),
        p90=float(p90),
        forecast=_spread(medians[order], none),
        realised=_spread(lengths.tokens[order], lengths.censored[order]),
        allowed=_allowed(Draws.of(examples)),
        mean=mean,
        p99=p99,
        config=config,
    )


def _spread(ordered: NDArray[np.float64], censored: NDArray[np.bool_]) -> float:
    tenth = len(ordered) // _TENTHS
    even = np.ones(tenth)
    low, high = (
        weighted_quantiles(ordered[rows], censored[rows], even, (0.5,))[0]
        for rows in (slice(None, tenth), slice(-tenth, None))
    )
    return math.log((high + 1.0) / (low + 1.0))


def _allowed(draws: Draws) -> float:
    if np.count_nonzero(draws.several) < LEAST_ROWS:
        return math.nan
    tau = ceiling(draws.tokens, draws.censored, resamples=0).tau
    # The covariance of two draws is the variance of what a prompt itself decides. Greiner's
    # relation (1909) turns tau into a correlation, which bounds enter where they are known.
    correlation = math.sin(math.pi / 2.0 * max(tau, 0.0))
    first = np.argsort(draws.tokens[:, 0], kind="stable")
    whole = _spread(draws.tokens[first, 0], draws.censored[first, 0])
    return math.sqrt(correlation) * whole


def _against_fcfs(
    forecasts: Sequence[Forecast],
    examples: Sequence[Example],
    config: BurstConfig,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Mean over bursts of the ratios of mean and p99 latency."""
    kept = replayable(examples, config)
    if not kept:
        return math.nan, math.nan
    ratios = []
    for _ in range(config.bursts):
        drawn = rng.choice(kept, config.requests)
        arrivals = renewal(config.requests, 1.0, 1.0, rng)
        requests = replay(forecasts, examples, drawn, arrivals, config)
        batch = config.scheduler.max_num_seqs
        boost = make(_POLICY, cost=config.cost, batch=batch, setting="safe")
        ours, theirs = (
            simulate(requests, config.scheduler, policy, config.cost).summary.e2el
            for policy in (boost, Fcfs())
        )
        ratios.append((ours.mean / theirs.mean, ours.p99 / theirs.p99))
    mean, p99 = np.mean(ratios, axis=0)
    return float(mean), float(p99)
