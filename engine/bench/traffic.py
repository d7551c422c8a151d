"""Traffic that the studies share: lengths with forecasts that are honest about their noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine import workload
from engine.workload import Lengths
from ranker.types import Forecast

#: Below this many lengths there is nothing to calibrate a forecast on.
LEAST = 80


def served(
    lengths: Lengths, count: int, tau: float, rng: np.random.Generator
) -> tuple[Lengths, list[Forecast]]:
    """``count`` requests drawn with replacement from one half of ``lengths``, with forecasts of
    that Kendall tau-b, calibrated on the other half.

    Raises ``ValueError`` below 80 lengths.
    """
    if len(lengths) < LEAST:
        raise ValueError(f"lengths must hold at least {LEAST} requests, got {len(lengths)}")
    shuffled = rng.permutation(len(lengths))
    half = len(lengths) // 2
    known = lengths.take(shuffled[:half])
    drawn = lengths.take(rng.choice(shuffled[half:], count))
    output = np.concatenate([known.output_tokens, drawn.output_tokens])
    scores = workload.noisy_scores(output, tau, rng)
    return drawn, workload.calibrated(scores[half:], scores[:half], known.output_tokens)


def tau(scores: Sequence[float], lengths: workload.Ints) -> float:
    """Kendall tau-b."""
    from scipy.stats import kendalltau  # of the extra "train"

    return float(kendalltau(scores, lengths).statistic)
