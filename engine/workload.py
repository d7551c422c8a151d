"""Arrivals, lengths and forecasts to simulate with. Randomness comes from the generator given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.core.costs import CostModel
from engine.core.request import Request
from ranker.types import LEVELS, Forecast

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """Prompt and output tokens of requests that happened, row by row: int64 arrays of one size.

    Raises ``ValueError`` when empty, of unequal size, or with a length below 1.
    """

    prompt_tokens: Ints
    output_tokens: Ints

    def __post_init__(self) -> None:
        if len(self.prompt_tokens) != len(self.output_tokens) or not len(self.prompt_tokens):
            raise ValueError("prompt_tokens and output_tokens must be of one size, above 0")
        if self.prompt_tokens.min() < 1 or self.output_tokens.min() < 1:
            raise ValueError("prompt_tokens and output_tokens must be at least 1 in each row")

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    def take(self, index: NDArray[np.integer]) -> Lengths:
        return Lengths(self.prompt_tokens[index], self.output_tokens[index])

    def rate_at(self, utilisation: float, cost: CostModel, batch: int) -> float:
        """Requests per second that keep an engine of ``batch`` slots busy for that share."""
        works = [
            cost.work(int(prompt), int(output), batch)
            for prompt, output in zip(self.prompt_tokens, self.output_tokens, strict=True)
        ]
        return utilisation / float(np.mean(works))


def burst(count: int, spread: float, rng: np.random.Generator) -> Floats:
    """``count`` arrivals, uniform over ``spread`` seconds, ascending."""
    return np.sort(rng.uniform(0.0, spread, count))


def renewal(count: int, rate: float, burstiness: float, rng: np.random.Generator) -> Floats:
    """Gamma-distributed gaps with ``rate`` arrivals per second, ascending from 0.

    ``burstiness`` is the shape, as in ``vllm bench serve``: 1 is Poisson, below 1 burstier.
    """
    if rate <= 0.0 or burstiness <= 0.0:
        raise ValueError(f"rate and burstiness must be above 0, got {rate} and {burstiness}")
    gaps = rng.gamma(burstiness, 1.0 / (rate * burstiness), count)
    return np.asarray(np.cumsum(gaps) - gaps[0], dtype=np.float64)


def waves(count: int, rate: float, period: float, swing: float, rng: np.random.Generator) -> Floats:
    """Poisson arrivals whose rate alternates each ``period`` seconds between ``rate·(1 ± swing)``.

    Starts with the high rate; the mean over two periods is ``rate``.
    """
    if not 0.0 <= swing <= 1.0 or period <= 0.0 or rate <= 0.0:
        raise ValueError("swing must lie in [0, 1], period and rate above 0")
    # Unit-rate arrivals through the inverse of the cumulated rate, which is piecewise linear.
    unit = np.cumsum(rng.exponential(1.0, count))
    high, low = rate * (1.0 + swing) * period, rate * (1.0 - swing) * period
    cycle, within = np.divmod(unit, high + low)
    in_high = within < high
    rest = np.where(in_high, 0.0, within - high)
    seconds = np.where(
        in_high,
        within / high * period,
        period + (rest / low * period if low > 0.0 else 0.0),
    )
    return np.asarray(cycle * 2.0 * period + seconds, dtype=np.float64)


def noisy_scores(lengths: Ints, tau: float, rng: np.random.Generator) -> Floats:
    """Scores whose Kendall tau-b with ``lengths`` is ``tau``: log length plus Gaussian noise.

    The noise is scaled by bisection on these very lengths, to within .005 for a few hundred of
    them. ``tau`` lies in [0, 1]; 1 gives the log lengths themselves, 0 pure noise.
    """
    from scipy.stats import kendalltau  # of the extra "train"; nothing else here needs it

    if not 0.0 <= tau <= 1.0:
        raise ValueError(f"tau must lie in [0, 1], got {tau}")
    log, noise = np.log(lengths), rng.standard_normal(len(lengths))
    low, high = 0.0, 1.0  # share of noise in the mixture
    if tau <= 0.0:
        return noise
    for _ in range(30):
        share = (low + high) / 2
        scores = (1.0 - share) * log + share * noise
        if kendalltau(scores, lengths).statistic > tau:
            low = share
        else:
            high = share
    return np.asarray((1.0 - low) * log + low * noise, dtype=np.float64)


def calibrated(
    scores: Floats, known_scores: Floats, known_lengths: Ints, bins: int = 20
) -> list[Forecast]:
    """Honest forecasts: the quantiles of lengths that were seen with a like score.

    ``known_*`` are other requests than those forecast. Quantiles per equal-count bin of the known
    scores, made monotone and interpolated between bins.
    """
    order = np.argsort(known_scores, kind="stable")
    parts = np.array_split(order, max(1, min(bins, len(order) // 20)))
    table = np.array([np.quantile(known_lengths[part], LEVELS) for part in parts])
    table = np.maximum.accumulate(table, axis=0)
    middles = np.array([np.median(known_scores[part]) for part in parts])
    columns = [np.interp(scores, middles, table[:, level]) for level in range(len(LEVELS))]
    quantiles = np.maximum.accumulate(np.stack(columns, axis=1), axis=1)
    return [
        Forecast(float(score), tuple(map(float, row)), "calibrated-noise", "0")
        for score, row in zip(scores, quantiles, strict=True)
    ]


def requests(
    arrivals: Floats, lengths: Lengths, forecasts: Sequence[Forecast] | None = None
) -> list[Request]:
    """Put the three together, row by row; ids are row numbers."""
    if len(arrivals) != len(lengths) or (forecasts is not None and len(forecasts) != len(lengths)):
        raise ValueError("arrivals, lengths and forecasts must be of one size")
    return [
        Request(
            id=str(row),
            arrival=float(arrivals[row]),
            prompt_tokens=int(lengths.prompt_tokens[row]),
            forecast=None if forecasts is None else forecasts[row],
            true_tokens=int(lengths.output_tokens[row]),
        )
        for row in range(len(lengths))
    ]
