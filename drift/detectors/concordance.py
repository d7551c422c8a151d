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
    """Streaming: feed outcomes in order, get each one's sign concordance with those before it.

    Pairs whose scores are less than ``gap`` apart are left out.
    """

    def __init__(self, neighbours: int, gap: float = 0.0) -> None:
        if neighbours < 1:
            raise ValueError(f"neighbours must be >= 1, got {neighbours}")
        self._gap = gap
        self._recent: deque[tuple[float, int, bool]] = deque(maxlen=neighbours)

    def update(self, score: float, tokens: int, censored: bool) -> float | None:
        """Mean of sign(score difference) x sign(length difference) over decided pairs, in [-1, 1].

        ``None`` when no pair is decided (nothing before it, equal lengths, censored both sides).
        """
        total, pairs = self.agreement(score, tokens, censored)
        return total / pairs if pairs else None

    def agreement(self, score: float, tokens: int, censored: bool) -> tuple[int, int]:
        """The same as the sum over decided pairs, and how many there are."""
        total = pairs = 0
        gap = self._gap
        for other_score, other_tokens, other_censored in self._recent:
            if gap and abs(score - other_score) < gap:
                continue
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
        return total, pairs

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
    total, pairs = agreements(scores, tokens, censored, neighbours)
    out = np.full(scores.shape, np.nan)
    np.divide(total, pairs, out=out, where=pairs > 0)
    return out


def agreements(
    scores: NDArray[np.float64],
    tokens: NDArray[np.int64],
    censored: NDArray[np.bool_],
    neighbours: int,
    gap: float = 0.0,
) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """:meth:`Concordance.agreement` for many streams at once: sums and numbers of pairs, of the
    shape of the arrays, [time, streams]."""
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
        if gap:
            unlike = np.abs(scores[lag:] - scores[:-lag]) >= gap
            up, down = up * unlike, down * unlike
        sign = (rank[lag:] > rank[:-lag]).astype(np.int8) - (rank[lag:] < rank[:-lag])
        total[lag:] += sign * (up - down)
        pairs[lag:] += up + down
    return total, pairs


def _ranks(values: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.int32]:
    flat = np.unique(values, return_inverse=True)[1]
    return flat.reshape(values.shape).astype(np.int32)
