"""What requests with a like forecast turned out to cost."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Bin:
    """Outcomes with neighbouring labels. ``log_m`` is ln E[exp(gamma · work)] over ``count``."""

    highest_label: float
    count: int
    log_m: float


class Experience:
    """The last ``memory`` pairs of (label, realised work in seconds).

    A label orders requests by what was known of them, smaller first. From the pairs come the label
    below which requests hold a given share of all work, and the honest conditional
    ``M = E[exp(gamma·S) | label]`` in equal-count bins made monotone in the label. Both are worked
    out anew when 1/64 of the pairs are new, M also when gamma moved by more than 2 %: an outcome
    costs amortised O(log n), a question O(log bins).
    """

    def __init__(self, memory: int, bins: int, least: int) -> None:
        self._pairs: deque[tuple[float, float]] = deque(maxlen=memory)
        self._max_bins = bins
        self._least = least
        self._sorted: list[tuple[float, float]] = []
        self._thresholds: dict[float, float] = {}
        self._bins: list[Bin] = []
        self._gamma = math.nan
        self._new = 0

    def __len__(self) -> int:
        return len(self._pairs)

    def add(self, label: float, work: float) -> None:
        self._pairs.append((label, work))
        self._new += 1

    def clear(self) -> None:
        """Forget everything: the labels come from another ranker now."""
        self._pairs.clear()
        self._sorted, self._bins, self._thresholds = [], [], {}
        self._new, self._gamma = 0, math.nan

    def bin_of(self, label: float, gamma: float) -> Bin | None:
        """The bin a label falls into, the last one beyond the highest; None while too few."""
        self._refresh(gamma)
        if not self._bins:
            return None
        index = bisect_left(self._bins, label, key=lambda found: found.highest_label)
        return self._bins[min(index, len(self._bins) - 1)]

    def threshold(self, share: float) -> float:
        """The highest label such that requests up to it hold at most ``share`` of the work.

        Requests with equal labels are in together or out together. -inf when nobody fits.
        """
        self._sort()
        found = self._thresholds.get(share)
        if found is None:
            found = self._thresholds[share] = threshold(self._sorted, share)
        return found

    def _sort(self) -> None:
        if self._new and self._new * 64 >= len(self._sorted):
            self._sorted = sorted(self._pairs)
            self._thresholds = {}
            self._new = 0
            self._gamma = math.nan

    def _refresh(self, gamma: float) -> None:
        self._sort()
        if abs(gamma - self._gamma) <= 0.02 * gamma:
            return
        self._gamma = gamma
        number = min(self._max_bins, len(self._sorted) // self._least)
        cuts = [round(i * len(self._sorted) / number) for i in range(number + 1)] if number else []
        self._bins = _monotone(
            [
                Bin(part[-1][0], len(part), log_mean_exp([gamma * work for _, work in part]))
                for part in (self._sorted[low:high] for low, high in pairwise(cuts))
            ]
        )


def log_mean_exp(exponents: Sequence[float], weights: Iterable[float] | None = None) -> float:
    """ln of the (weighted) mean of exp(x), without overflow. Weights add up to 1."""
    top = max(exponents)
    if weights is None:
        return top + math.log(sum(math.exp(x - top) for x in exponents) / len(exponents))
    pairs = zip(weights, exponents, strict=True)
    return top + math.log(sum(weight * math.exp(x - top) for weight, x in pairs))


def raw_boost(log_m: float, gamma: float, trust: float) -> float:
    """``ln(M / (M − 1)) / gamma`` = ``−ln(1 − exp(−ln M)) / gamma`` at gamma / ``trust``.

    M at that gamma is taken for ``M^(1/trust)``, exact for a work that is known: so all trusts
    share the bins of one gamma. It falls with trust, and so does the difference of two.
    """
    return -math.log(-math.expm1(-max(log_m, 1e-12) / trust)) / (gamma / trust)


def threshold(pairs: Sequence[tuple[float, float]], share: float) -> float:
    """See :meth:`Experience.threshold`; ``pairs`` of label and work ascend by label."""
    allowed = share * sum(work for _, work in pairs)
    best, held, label = -math.inf, 0.0, -math.inf
    for next_label, work in pairs:
        if next_label != label:
            best, label = label, next_label
        held += work
        if held > allowed:
            return best
    return label


def _monotone(bins: list[Bin]) -> list[Bin]:
    """Pool neighbours until log_m ascends (pool adjacent violators)."""
    pooled: list[Bin] = []
    for found in bins:
        while pooled and pooled[-1].log_m >= found.log_m:
            before = pooled.pop()
            count = before.count + found.count
            weights = [before.count / count, found.count / count]
            log_m = log_mean_exp([before.log_m, found.log_m], weights)
            found = Bin(found.highest_label, count, log_m)
        pooled.append(found)
    return pooled
