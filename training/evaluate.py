"""Rankers side by side on rows that none of them saw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ranker.calibration import pinball
from ranker.metrics import coverage, order
from ranker.types import Forecast, Ranker
from training.sources import Example, Lengths

#: What an engine does that asks no ranker.
FCFS = "fcfs"

#: Rows below which a ranker's forecasts are not described.
LEAST_ROWS = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One ranker on one set of rows. NaN where a number does not apply.

    ``tau`` is Kendall's tau-b with a 95% bootstrap interval, ``accuracy`` the share of pairs in
    the right order. ``p50`` and ``p90`` are the shares of answers at or below the forecast median
    and 90% quantile: .5 and .9 when honest. ``loss`` is the quantile loss in log tokens.
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

    def metrics(self, prefix: str) -> dict[str, float]:
        """Numbers for a run record, as ``prefix.tau`` and so on."""
        names = ("tau", "low", "high", "accuracy", "p50", "p90", "loss")
        keys = ("tau", "tau_low", "tau_high", "pair_accuracy", "p50_coverage", "p90_coverage")
        values = [getattr(self, name) for name in names]
        pairs = zip((*keys, "quantile_loss"), values, strict=True)
        return {f"{prefix}.{key}": v for key, v in pairs if not math.isnan(v)}


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
    rankers: Mapping[str, Ranker],
    examples: Sequence[Example],
    *,
    seed: int = 0,
    orders: Mapping[str, Sequence[float]] | None = None,
) -> list[Row]:
    """One row per ranker, in order, and last what a random order of arrival gets.

    ``orders`` are scores, one per example, to judge as orders alone, after the rankers. Raises
    ``ValueError`` when there are fewer than two examples.
    """
    if len(examples) < 2:
        raise ValueError(f"{len(examples)} rows are too few to compare an order")
    prompts = [e.prompt for e in examples]
    lengths = Lengths.of(examples)
    rows = [_row(name, ranker.forecast(prompts), lengths, seed) for name, ranker in rankers.items()]
    arrival = np.random.default_rng(seed).permutation(len(examples)).astype(np.float64)
    bounds = int(lengths.censored.sum())
    for name, scores in (*(orders or {}).items(), (FCFS, arrival)):
        found = order(np.asarray(scores), lengths.tokens, lengths.censored, seed=seed)
        tau = (found.tau, found.low, found.high, found.accuracy)
        rows.append(Row(name, len(examples), bounds, *tau))
    return rows


def _row(name: str, forecasts: Sequence[Forecast], lengths: Lengths, seed: int) -> Row:
    found = order([f.score for f in forecasts], lengths.tokens, lengths.censored, seed=seed)
    levels = forecasts[0].levels
    quantiles = np.array([f.quantiles for f in forecasts])
    two = np.array([[f.quantile(0.5), f.quantile(0.9)] for f in forecasts])
    shares, _ = coverage(two, lengths.tokens, lengths.censored, (0.5, 0.9))
    loss = pinball(quantiles, lengths.tokens, lengths.censored, levels)
    return Row(
        ranker=name,
        rows=len(forecasts),
        censored=int(lengths.censored.sum()),
        tau=found.tau,
        low=found.low,
        high=found.high,
        accuracy=found.accuracy,
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
