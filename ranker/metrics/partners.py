"""How the pairs that each row is in come out, without a look at every pair.

Two different lengths part at exactly one bit of their ranks: as leaves of a binary tree over the
ranks they part at one node, one of them to its left and the other to its right. Level by level,
every row on the right counts the rows on the left of its node by their scores, and the other way
round. Rows are sorted by score once, and from level to level only divided, as in a wavelet tree
(Grossi, Gupta & Vitter 2003): O(n log n) time, O(n) memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Partners:
    """Of each row's pairs with the others, how many there are of a kind, [n].

    ``concordant`` and ``discordant`` are pairs whose longer row is known and has the higher or the
    lower score, ``tied`` those with equal scores. ``equal`` are pairs known to be of one length,
    ``parted`` those of them with different scores. All others nobody can order.
    """

    concordant: Ints
    discordant: Ints
    tied: Ints
    equal: Ints
    parted: Ints

    @classmethod
    def of(
        cls,
        scores: NDArray[np.float64],
        tokens: NDArray[np.float64] | Ints,
        censored: Bools,
    ) -> Partners:
        """Vectors of one length, without NaN. ``censored`` marks lower bounds, which decide what
        they do in :func:`ranker.metrics.decided`."""
        event = ~censored
        # A bound lies beyond an equal realised length: that answer had not stopped by then.
        time = _numbers(2 * _numbers(tokens) + censored)
        rank = _numbers(scores)
        same = _others(time, event)
        alike = _others(time * (rank.max(initial=0) + 1) + rank, event)
        return cls(*_dominance(time, rank, event), same, same - alike)


def _numbers(values: NDArray[np.float64] | Ints) -> Ints:
    """Places of ``values`` among the different ones, ascending from 0, [n]."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _others(group: Ints, event: Bools) -> Ints:
    """How many other events share each event's group; 0 for the rest."""
    _, inverse, counts = np.unique(group[event], return_inverse=True, return_counts=True)
    out = np.zeros(len(group), dtype=np.int64)
    out[event] = counts[inverse] - 1
    return out


def _dominance(time: Ints, rank: Ints, event: Bools) -> tuple[Ints, Ints, Ints]:
    """Concordant, discordant and score-tied partners of each row among decided pairs.

    A pair is decided when the one with the smaller ``time`` is an event.
    """
    totals = np.zeros((3, len(time)), dtype=np.int64)
    order = np.argsort(rank, kind="stable")
    for level in reversed(range(int(time.max(initial=0)).bit_length())):
        here, ranks, ended = time[order], rank[order], event[order]
        right = (here >> level & 1).astype(np.bool_)
        node = here >> level + 1
        node_start, node_end = _runs(node)
        tie_start, tie_end = _runs(node, ranks)
        for mine, theirs, longer in ((right, ~right & ended, True), (~right & ended, right, False)):
            seen = _before(theirs)
            below = (seen[tie_start] - seen[node_start])[mine]
            equal = (seen[tie_end] - seen[tie_start])[mine]
            above = (seen[node_end] - seen[tie_end])[mine]
            where = order[mine]
            totals[0, where] += below if longer else above
            totals[1, where] += above if longer else below
            totals[2, where] += equal
        order = _divided(order, right, node_start, node_end)
    return totals[0], totals[1], totals[2]


def _divided(order: Ints, right: Bools, start: Ints, end: Ints) -> Ints:
    """``order`` with those of each node that go to its left before those that go to its right."""
    lefts = _before(~right)
    to_left = start + lefts[:-1] - lefts[start]
    to_right = np.arange(len(order)) + lefts[end] - lefts[:-1]
    divided = np.empty_like(order)
    divided[np.where(right, to_right, to_left)] = order
    return divided


def _before(members: Bools) -> Ints:
    """How many ``members`` come before each place and, last, how many there are, [n + 1]."""
    return np.concatenate(([0], np.cumsum(members)))


def _runs(*keys: Ints) -> tuple[Ints, Ints]:
    """For each element of sorted ``keys``: where its run of equal keys starts and ends."""
    change = np.ones(len(keys[0]), dtype=np.bool_)
    change[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    starts = np.flatnonzero(change)
    run = np.cumsum(change) - 1
    return starts[run], np.append(starts[1:], len(change))[run]
