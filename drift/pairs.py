"""Pairs of outcomes whose order in length is known, and how their scores agree with it.

A censored length (a token limit, a client that left) is a lower bound, so a pair counts only when
its order is known: F. E. Harrell et al., JAMA 247 (1982), the rule behind the concordance index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Per outcome, over its partners, shape [n] each.

    ``signed``: concordant less discordant ones. ``untied``: those untied in score, of the decided
    and of the equally long. ``decided``: those whose order in length is known.
    """

    signed: Floats
    untied: Floats
    decided: Floats

    @property
    def count(self) -> int:
        """Decided pairs."""
        return int(self.decided.sum()) // 2

    @classmethod
    def of(
        cls,
        scores: Sequence[float] | Floats,
        tokens: Sequence[int] | Ints,
        censored: Sequence[bool] | Bools | None = None,
    ) -> Pairs:
        """From ``scores`` (higher = longer) and ``tokens``, both of shape [n]; O(n log^2 n).

        ``censored[i]`` makes ``tokens[i]`` a lower bound. Pairs censored on both sides, and pairs
        whose bound does not pass the other's length, are not decided. Raises ``ValueError`` when
        shapes differ or a score is not finite.
        """
        s = np.asarray(scores, dtype=np.float64)
        y = np.asarray(tokens, dtype=np.int64)
        c = np.zeros(len(y), dtype=np.bool_) if censored is None else np.asarray(censored, np.bool_)
        if s.ndim != 1 or s.shape != y.shape or s.shape != c.shape:
            raise ValueError(
                f"scores, tokens and censored must have one length: {s.shape}, {y.shape}, {c.shape}"
            )
        if not np.all(np.isfinite(s)):
            raise ValueError("scores must be finite")
        if len(s) < 2:
            nothing = np.zeros(len(s))
            return cls(nothing, nothing, nothing)
        return cls(*_per_outcome(s, y, c))


def _per_outcome(s: Floats, y: Ints, c: Bools) -> tuple[Floats, Floats, Floats]:
    """Per outcome, over its partners: concordant - discordant; pairs untied in score; decided."""
    # A censored length lies beyond an equal realised one: it had not stopped by then.
    time = np.unique(2 * y + c, return_inverse=True)[1].astype(np.int64)
    rank = np.unique(s, return_inverse=True)[1].astype(np.int64)
    event = ~c
    concordant, discordant, tied = _dominance(time, rank, event)
    decided = concordant + discordant + tied
    equal_length = _others(time, event) - _others(time * (rank.max() + 1) + rank, event)
    return (
        (concordant - discordant).astype(np.float64),
        (concordant + discordant + equal_length).astype(np.float64),
        decided.astype(np.float64),
    )


def _others(group: Ints, event: Bools) -> Ints:
    """How many other events share each event's group; 0 for the rest."""
    _, inverse, counts = np.unique(group[event], return_inverse=True, return_counts=True)
    out = np.zeros(len(group), dtype=np.int64)
    out[event] = counts[inverse] - 1
    return out


def _dominance(time: Ints, rank: Ints, event: Bools) -> tuple[Ints, Ints, Ints]:
    """Concordant, discordant and score-tied partners of each outcome among decided pairs.

    A pair is decided when the one with the smaller ``time`` is an event. Two different times part
    at exactly one bit of a binary tree over times: at each level, a right child meets the events
    of its left sibling, counted by prefix sums along the scores. One sort a level.
    """
    n = len(time)
    totals = np.zeros((3, n), dtype=np.int64)
    by_rank = np.argsort(rank, kind="stable")
    for level in range(int(time.max()).bit_length()):
        node = time >> (level + 1)
        order = by_rank[np.argsort(node[by_rank], kind="stable")]
        right = ((time[order] >> level) & 1).astype(np.bool_)
        left_event = ~right & event[order]
        node_start, node_end = _bounds(node[order])
        tie_start, tie_end = _bounds(node[order], rank[order])
        for mine, theirs, longer in ((right, left_event, True), (left_event, right, False)):
            seen = np.concatenate(([0], np.cumsum(theirs)))
            below = (seen[tie_start] - seen[node_start])[mine]
            equal = (seen[tie_end] - seen[tie_start])[mine]
            above = (seen[node_end] - seen[tie_end])[mine]
            where = order[mine]
            totals[0, where] += below if longer else above
            totals[1, where] += above if longer else below
            totals[2, where] += equal
    return totals[0], totals[1], totals[2]


def _bounds(*keys: Ints) -> tuple[Ints, Ints]:
    """For each element of sorted ``keys``: where its run of equal keys starts and ends."""
    n = len(keys[0])
    change = np.zeros(n, dtype=np.bool_)
    change[0] = True
    for key in keys:
        change[1:] |= key[1:] != key[:-1]
    starts = np.flatnonzero(change)
    run = np.cumsum(change) - 1
    ends = np.append(starts[1:], n)
    return starts[run], ends[run]
