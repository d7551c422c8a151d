"""Cross-validation of calibrations: which rows judge together, and which candidate wins."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def fold_numbers(scores: Floats, groups: Ints, folds: int) -> Ints:
    """The fold of each row, [n] in 0 ... ``folds`` - 1.

    Rows of one group, the draws of one prompt, share a fold, and every fold covers the whole range
    of scores; the last folds are empty when there are fewer groups. Raises ``ValueError`` when
    there is one group alone.
    """
    order = np.argsort(scores, kind="stable")
    _, first, group = np.unique(groups[order], return_index=True, return_inverse=True)
    if len(first) < 2:
        raise ValueError("calibration: rows of one prompt alone; add validation prompts")
    place = np.argsort(np.argsort(first))
    numbers = np.empty(len(scores), np.int64)
    numbers[order] = place[group] % min(folds, len(first))
    return numbers


def simplest(losses: Floats, groups: Ints) -> int:
    """Of ``losses`` [candidates, rows], simplest candidate first: the first one within one standard
    error of the best (Breiman et al. 1984, section 3.4.3).

    Paired, as all candidates are judged on the same rows, so the error is that of the difference;
    rows of one group count as one (cluster-robust, Liang & Zeger 1986).
    """
    rows = losses.shape[1]
    excess = losses - losses[np.argmin(losses.mean(axis=1))]
    mean = excess.mean(axis=1)
    _, group = np.unique(groups, return_inverse=True)
    number = int(group.max()) + 1
    around = excess - mean[:, None]
    sums = np.array([np.bincount(group, row, number) for row in around])
    wider = math.sqrt(number / (number - 1)) if number > 1 else math.inf
    error = wider * np.sqrt((sums**2).sum(axis=1)) / rows
    return int(np.argmax(mean <= error))
