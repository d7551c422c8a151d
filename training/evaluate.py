"""Rankers side by side on the same rows.

That none of them was trained on these is for callers to see to: :mod:`training.held_out`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ranker.calibration import pinball
from ranker.metrics import coverage, order, share_of_ceiling, short_long
from ranker.types import Forecast
from training.draws import Draws, prompt_numbers
from training.forecasts import Forecaster, forecasts_of
from training.sources import Example, Lengths

Floats = NDArray[np.float64]

#: What an engine does that asks no ranker.
FCFS = "fcfs"

#: Rows below which a ranker's forecasts are not described.
LEAST_ROWS = 10

#: Prompts with several draws below which no ceiling is given: a few double prompts are none.
LEAST_DRAWN = 30


@dataclass(frozen=True, slots=True)
class Row:
    """One ranker on one set of rows. NaN where a number does not apply.

    ``tau`` is Kendall's tau-b with a 95% bootstrap interval, ``accuracy`` the share of pairs in
    the right order. ``p50`` and ``p90`` are the shares of answers at or below the forecast median
    and 90% quantile: .5 and .9 when honest. ``loss`` is the quantile loss in log tokens.
    ``short_long`` is the share of pairs of a short and a long third in the right order. Where
    enough prompts have several draws, ``ceiling`` is tau-b between two of them, pairs that bounds
    leave open left out, and ``share`` the ranker's tau on those prompts by it.
    """

    ranker: str
    rows: int
    censored: int
    tau: float
    low: float
    high: float
    accuracy: float
    p50: float = math.nan
    p90: float = math.nan
    loss: float = math.nan
    short_long: float = math.nan
    ceiling: float = math.nan
    share: float = math.nan

    def metrics(self, prefix: str) -> dict[str, float]:
        """Numbers for a run record, as ``prefix.tau`` and so on."""
        values = ((key, getattr(self, name)) for key, name in _METRICS.items())
        return {f"{prefix}.{key}": v for key, v in values if not math.isnan(v)}


#: Names of a row's numbers in a run record.
_METRICS = {
    "tau": "tau",
    "tau_low": "low",
    "tau_high": "high",
    "pair_accuracy": "accuracy",
    "short_long_accuracy": "short_long",
    "p50_coverage": "p50",
    "p90_coverage": "p90",
    "quantile_loss": "loss",
    "tau_ceiling": "ceiling",
    "tau_of_ceiling": "share",
}


@dataclass(frozen=True, slots=True)
class Flatness:
    """How far forecasts move, beside how far lengths do, in tokens.

    ``low`` and ``high`` are the mean forecast medians of the tenth of the prompts with the lowest
    and the highest scores; ``p10`` and ``p90`` are quantiles of the realised lengths. ``share`` is
    ``ln(high / low) / ln(p90 / p10)``: 0 says the same of every prompt, 1 is as wide as the truth.
    """

    low: float
    high: float
    p10: float
    p90: float

    @property
    def share(self) -> float:
        truth = math.log((self.p90 + 1.0) / (self.p10 + 1.0))
        return math.log((self.high + 1.0) / (self.low + 1.0)) / truth if truth > 0.0 else math.nan

    def __str__(self) -> str:
        return (
            f"median forecast {self.low:.0f} tokens for the lowest tenth of scores, "
            f"{self.high:.0f} for the highest; 80% of real lengths lie in "
            f"{self.p10:.0f}-{self.p90:.0f}; the forecast spans {self.share:.0%} of that range"
        )


def evaluate(
    rankers: Mapping[str, Forecaster],
    examples: Sequence[Example],
    *,
    seed: int = 0,
    orders: Mapping[str, Sequence[float]] | None = None,
) -> list[Row]:
    """One row per ranker, in order, and last what a random order of arrival gets.

    A ranker of several served models is asked for the one that answered. ``orders`` are scores,
    one per example, to judge as orders alone, after the rankers. Raises ``ValueError`` when there
    are fewer than two examples.
    """
    told = {name: forecasts_of(each, examples) for name, each in rankers.items()}
    return judged(told, examples, seed=seed, orders=orders)


def judged(
    told: Mapping[str, Sequence[Forecast]],
    examples: Sequence[Example],
    *,
    seed: int = 0,
    orders: Mapping[str, Sequence[float]] | None = None,
) -> list[Row]:
    """As :func:`evaluate`, of forecasts that are there already: ``told`` by ranker, one per
    example."""
    if len(examples) < 2:
        raise ValueError(f"{len(examples)} rows are too few to compare an order")
    judge = _Judge.of(examples, seed)
    rows = [judge.forecasts(name, forecasts) for name, forecasts in told.items()]
    arrival = np.random.default_rng(seed).permutation(len(examples)).astype(np.float64)
    for name, scores in (*(orders or {}).items(), (FCFS, arrival)):
        rows.append(judge.order(name, np.asarray(scores, dtype=np.float64)))
    return rows


@dataclass(frozen=True, slots=True)
class _Judge:
    """Rows to judge by. Rows of one prompt, be they draws or other models, are drawn together."""

    lengths: Lengths
    prompts: NDArray[np.int64]
    draws: Draws
    seed: int

    @classmethod
    def of(cls, examples: Sequence[Example], seed: int) -> _Judge:
        return cls(Lengths.of(examples), prompt_numbers(examples), Draws.of(examples), seed)

    def order(self, name: str, scores: Floats) -> Row:
        tokens, censored = self.lengths.tokens, self.lengths.censored
        found = order(scores, tokens, censored, clusters=self.prompts, seed=self.seed)
        top, share = math.nan, math.nan
        if np.count_nonzero(self.draws.several) >= LEAST_DRAWN:
            first = scores[self.draws.first]
            part = share_of_ceiling(first, self.draws.tokens, self.draws.censored, resamples=0)
            top, share = part.ceiling, part.share
        return Row(
            ranker=name,
            rows=len(tokens),
            censored=int(censored.sum()),
            tau=found.tau,
            low=found.low,
            high=found.high,
            accuracy=found.accuracy,
            short_long=short_long(scores, tokens, censored),
            ceiling=top,
            share=share,
        )

    def forecasts(self, name: str, forecasts: Sequence[Forecast]) -> Row:
        tokens, censored = self.lengths.tokens, self.lengths.censored
        levels = forecasts[0].levels
        quantiles = np.array([f.quantiles for f in forecasts])
        two = np.array([[f.quantile(0.5), f.quantile(0.9)] for f in forecasts])
        shares, _ = coverage(two, tokens, censored, (0.5, 0.9))
        loss = pinball(quantiles, tokens, censored, levels)
        return replace(
            self.order(name, np.array([f.score for f in forecasts])),
            p50=float(shares[0]),
            p90=float(shares[1]),
            loss=float(loss.mean()),
        )


def flatness(forecasts: Sequence[Forecast], examples: Sequence[Example]) -> Flatness:
    """How flat ``forecasts`` of ``examples`` are. Raises ``ValueError`` below 10 rows."""
    from ranker.survival import weighted_quantiles

    if len(forecasts) < LEAST_ROWS or len(forecasts) != len(examples):
        raise ValueError(f"flatness needs one forecast per example, at least {LEAST_ROWS}")
    ranked = sorted(forecasts, key=lambda f: f.score)
    tenth = max(1, len(ranked) // 10)
    lengths = Lengths.of(examples)
    even = np.ones(len(examples))
    p10, p90 = weighted_quantiles(lengths.tokens, lengths.censored, even, (0.1, 0.9))
    return Flatness(
        low=sum(f.median for f in ranked[:tenth]) / tenth,
        high=sum(f.median for f in ranked[-tenth:]) / tenth,
        p10=float(p10),
        p90=float(p90),
    )
