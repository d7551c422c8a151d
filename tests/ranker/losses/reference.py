"""The losses once more, from their papers, in plain loops over NumPy numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Lists:
    """Arrays ``[lists, size, draws]`` and weights ``[lists, size]``."""

    tokens: np.ndarray
    censored: np.ndarray
    mask: np.ndarray
    weights: np.ndarray

    def draws(self) -> Iterator[tuple[int, int, list[tuple[int, float, bool, float]]]]:
        """List, draw, and its rows: place in the list, length, whether a bound, weight."""
        lists, size, draws = self.tokens.shape
        for a in range(lists):
            for d in range(draws):
                rows = [
                    (i, self.tokens[a, i, d], bool(self.censored[a, i, d]), self.weights[a, i])
                    for i in range(size)
                    if self.mask[a, i, d]
                ]
                yield a, d, rows


def verdict(y: float, cut: bool, z: float, other_cut: bool) -> float | None:
    """1 when the first is longer, 0 when the second is, 0.5 when equal, ``None`` when unknown."""
    if cut and other_cut:
        return None
    if cut:
        return 1.0 if y >= z else None
    if other_cut:
        return 0.0 if z >= y else None
    return 0.5 if y == z else float(y > z)


def pairs(lists: Lists, least_gap: float = 0.0) -> Iterator[tuple[int, int, int, float, float]]:
    """List, two places, the share of wins of the first, and how far the pair is decided."""
    number, size, draws = lists.tokens.shape
    for a in range(number):
        for i in range(size):
            for j in range(size):
                if i == j:
                    continue
                said, possible = [], 0
                for d in range(draws):
                    for e in range(draws):
                        if not (lists.mask[a, i, d] and lists.mask[a, j, e]):
                            continue
                        possible += 1
                        y, z = lists.tokens[a, i, d], lists.tokens[a, j, e]
                        told = verdict(y, lists.censored[a, i, d], z, lists.censored[a, j, e])
                        if told is None:
                            continue
                        if least_gap and (y == z or abs(y - z) / max(y, z) < least_gap):
                            continue
                        said.append(told)
                if said:
                    yield a, i, j, float(np.mean(said)), len(said) / possible


def _over_pairs(lists: Lists, loss, least_gap: float = 0.0) -> float:
    total = known = 0.0
    for a, i, j, target, decided in pairs(lists, least_gap):
        total += decided * lists.weights[a, i] * lists.weights[a, j] * loss(a, i, j, target)
        known += decided
    return total / known if known else 0.0


def ranknet(scores: np.ndarray, lists: Lists) -> float:
    def loss(a: int, i: int, j: int, target: float) -> float:
        chance = 1.0 / (1.0 + math.exp(scores[a, j] - scores[a, i]))
        return -target * math.log(chance) - (1.0 - target) * math.log(1.0 - chance)

    return _over_pairs(lists, loss)


def margin(scores: np.ndarray, lists: Lists) -> float:
    def loss(a: int, i: int, j: int, target: float) -> float:
        gap = scores[a, i] - scores[a, j]
        return target * max(0.0, 1.0 - gap) + (1.0 - target) * max(0.0, 1.0 + gap)

    return _over_pairs(lists, loss, least_gap=0.2)


def listmle(scores: np.ndarray, lists: Lists, width: float = 0.0) -> float:
    total = rows_seen = 0.0
    for a, _, rows in lists.draws():
        binned = [(i, y // width if width else y, cut, w) for i, y, cut, w in rows]
        rows_seen += len(rows)
        for i, y, cut, weight in binned:
            if cut:
                continue
            among = sum(math.exp(-scores[a, j]) for j, z, _, _ in binned if z >= y)
            total -= weight * math.log(math.exp(-scores[a, i]) / among)
    return total / max(1.0, rows_seen)


def listnet(scores: np.ndarray, lists: Lists) -> float:
    total = number = 0.0
    for a, _, rows in lists.draws():
        number += bool(rows)
        known = [(i, 1.0 + y, w) for i, y, cut, w in rows if not cut]
        if not known:
            continue
        tokens = sum(y for _, y, _ in known)
        worth = sum(math.exp(scores[a, i]) for i, _, _ in known)
        weight = sum(w * y / tokens for _, y, w in known)
        for i, y, _ in known:
            p, q = y / tokens, math.exp(scores[a, i]) / worth
            total += weight * p * math.log(p / q)
        for i, bound, cut, w in rows:
            p = (1.0 + bound) / (1.0 + bound + tokens)
            q = math.exp(scores[a, i]) / (math.exp(scores[a, i]) + worth)
            if cut and q < p:
                total += w * (p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q)))
    return total / max(1.0, number)


def lambdaloss(scores: np.ndarray, lists: Lists) -> float:
    total = scale = 0.0
    for a, _, rows in lists.draws():
        there = [i for i in range(scores.shape[1]) if lists.mask[a, i].any()]
        place = {i: k + 1 for k, i in enumerate(sorted(there, key=lambda i: scores[a, i]))}
        for i, y, cut, w in rows:
            for j, z, other_cut, v in rows:
                if i == j or verdict(y, cut, z, other_cut) != 1.0:
                    continue
                apart = abs(place[i] - place[j])
                rho = abs(1 / math.log2(1 + place[i]) - 1 / math.log2(1 + place[j]))
                delta = abs(1 / math.log2(1 + apart) - 1 / math.log2(2 + apart))
                weight = abs(math.log1p(y) - math.log1p(z)) * (rho + 10.0 * delta)
                total += w * v * weight * math.log2(1 + math.exp(scores[a, j] - scores[a, i]))
                scale += weight
    return total / scale if scale else 0.0


def ordinal(logits: np.ndarray, lists: Lists, cuts: list[float]) -> float:
    total = rows_seen = 0.0
    for a, _, rows in lists.draws():
        rows_seen += len(rows)
        for i, y, cut, weight in rows:
            for k, threshold in enumerate(cuts):
                longer = verdict(y, cut, threshold, False)
                if longer is not None:
                    chance = 1.0 / (1.0 + math.exp(-logits[a, i, k]))
                    total -= weight * math.log(chance if longer == 1.0 else 1.0 - chance)
    return total / (max(1.0, rows_seen) * len(cuts))


def log_t(location: np.ndarray, scale: np.ndarray, lists: Lists) -> float:
    total = rows_seen = 0.0
    for a, _, rows in lists.draws():
        rows_seen += len(rows)
        for i, y, cut, weight in rows:
            lengths = stats.t(3.5, loc=location[a, i], scale=scale[a, i])
            log = math.log1p(y)
            total -= weight * (lengths.logsf(log) if cut else lengths.logpdf(log))
    return total / max(1.0, rows_seen)
