"""How well each outcome agrees with the few that arrived just before it.

The sign concordance with the last k outcomes is a mean of k dependent pairs, so it carries most of
the rank information of a new outcome at a cost of k comparisons, and it ranks a length only against
recent ones: a change of scale moves both sides of a comparison and leaves the order alone.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray


class Concordance:
    """Streaming: feed outcomes in arrival order, get each one's mean sign concordance."""

    def __init__(self, neighbours: int) -> None:
        if neighbours < 1:
            raise ValueError(f"neighbours must be >= 1, got {neighbours}")
        self._recent: deque[tuple[float, int, bool]] = deque(maxlen=neighbours)

    def update(self, score: float, tokens: int, censored: bool) -> float | None:
        """Mean of sign(score difference) x sign(length difference) over decided pairs, in [-1, 1].

        ``None`` when no pair is decided (nothing before it, equal lengths, censored both sides).
        """
        total = pairs = 0
        for other_score, other_tokens, other_censored in self._recent:
            if tokens == other_tokens and censored == other_censored:
                continue
            if (tokens, censored) < (other_tokens, other_censored):
                if censored:
                    continue  # mine may have gone on past the other's length
                pairs += 1
                total += (score < other_score) - (score > other_score)
            else:
                if other_censored:
                    continue
                pairs += 1
                total += (score > other_score) - (score < other_score)
        self._recent.append((score, tokens, censored))
        return total / pairs if pairs else None

    def reset(self) -> None:
        """Forget what came before."""
        self._recent.clear()


def concordances(
    scores: NDArray[np.float64],
    tokens: NDArray[np.int64],
    censored: NDArray[np.bool_],
    neighbours: int,
) -> NDArray[np.float64]:
    """:class:`Concordance` for many streams at once.

    All arrays have shape [time, streams]; NaN where no pair is decided.
    """
    total = np.zeros(scores.shape, dtype=np.int16)
    pairs = np.zeros(scores.shape, dtype=np.int16)
    # Dense ranks in small integers: the comparisons below are then cheap and exact.
    rank = _ranks(scores)
    time = _ranks(2 * tokens + censored)
    event = ~censored
    for lag in range(1, min(neighbours, len(scores) - 1) + 1):
        longer = time[lag:] > time[:-lag]
        shorter = time[lag:] < time[:-lag]
        up = (longer & event[:-lag]).astype(np.int8)
        down = (shorter & event[lag:]).astype(np.int8)
        sign = (rank[lag:] > rank[:-lag]).astype(np.int8) - (rank[lag:] < rank[:-lag])
        total[lag:] += sign * (up - down)
        pairs[lag:] += up + down
    out = np.full(scores.shape, np.nan)
    np.divide(total, pairs, out=out, where=pairs > 0)
    return out


def _ranks(values: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.int32]:
    flat = np.unique(values, return_inverse=True)[1]
    return flat.reshape(values.shape).astype(np.int32)
