"""Two rankers on the same rows: the difference of their tau-b, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranker.metrics import paired
from training.sources import Lengths

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Difference:
    """Challenger minus champion, with the 95% interval of the paired difference."""

    champion: float
    challenger: float
    value: float
    low: float
    high: float


def tau(
    champion: Floats,
    challenger: Floats,
    lengths: Lengths,
    prompts: NDArray[np.int64],
    resamples: int,
    seed: int,
) -> Difference:
    """Difference of tau-b over the pairs whose order in length is known; all vectors [rows].

    ``prompts`` numbers the prompts: answers to one are drawn together, and each resample draws
    the same for both rankers, so what makes a prompt hard for both cancels (paired percentile
    bootstrap, Efron 1979). Equal scores throughout are no order: tau 0. NaN when the lengths have
    none either.
    """
    found = paired(
        challenger,
        champion,
        lengths.tokens,
        lengths.censored,
        clusters=prompts,
        seed=seed,
        resamples=resamples,
    )
    return Difference(found.b, found.a, found.value, found.low, found.high)
