"""Hashed word n-grams: which words a prompt uses, without keeping the words.

The hashing trick (Weinberger et al. 2009, arXiv 0902.2206): an n-gram is a bucket number. A saved
ranker therefore holds weights of buckets, and no text of the prompts that it was trained on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ranker.window import Window
from ranker.words import words

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing: the high bits of the product mix well
_NEXT = np.uint64(0x100000001B3)
_OPENING = np.uint64(0x51ED270B)


@dataclass(frozen=True, slots=True)
class NgramConfig:
    """Word n-grams of 1 to ``orders`` words in ``2**bits`` buckets.

    The first ``opening`` words count a second time, as words that open a prompt: "write" there
    is a request, "write" elsewhere is a word.
    """

    orders: int = 2
    bits: int = 20
    opening: int = 4

    def __post_init__(self) -> None:
        if not all(isinstance(n, int) for n in (self.orders, self.bits, self.opening)):
            raise ValueError("ngrams.orders, ngrams.bits and ngrams.opening must be whole numbers")
        if not 1 <= self.orders <= 8:
            raise ValueError(f"ngrams.orders must lie between 1 and 8, got {self.orders}")
        if not 8 <= self.bits <= 24:
            raise ValueError(f"ngrams.bits must lie between 8 and 24, got {self.bits}")
        if self.opening < 0:
            raise ValueError(f"ngrams.opening must be at least 0, got {self.opening}")

    @property
    def buckets(self) -> int:
        return 1 << self.bits


@dataclass(frozen=True, slots=True)
class Counts:
    """Sparse counts: row ``i`` holds ``buckets[starts[i]:starts[i + 1]]``, ascending."""

    starts: NDArray[np.int64]  #: [rows + 1]
    buckets: NDArray[np.int32]  #: [entries]
    counts: NDArray[np.float32]  #: [entries]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def frequencies(self) -> NDArray[np.float32]:
        """Dampened term frequencies, ``1 + ln(count)``, [entries]."""
        return np.float32(1.0) + np.log(self.counts)


def _hashes(codes: NDArray[np.uint64], config: NgramConfig) -> NDArray[np.uint64]:
    parts = [codes * _SPREAD]
    run = codes
    for order in range(1, config.orders):
        if len(codes) <= order:
            break
        run = run[:-1] * _NEXT + codes[order:]
        parts.append((run + np.uint64(order)) * _SPREAD)
    if config.opening:
        parts.append((codes[: config.opening] * _NEXT + _OPENING) * _SPREAD)
    return np.concatenate(parts) >> np.uint64(64 - config.bits)


def count(prompts: Sequence[str], config: NgramConfig, window: Window) -> Counts:
    """Bucket counts of each prompt, one row per prompt; a row without words is empty."""
    return count_words((words(window.cut(prompt)) for prompt in prompts), config)


def count_words(texts: Iterable[Sequence[str]], config: NgramConfig) -> Counts:
    """Bucket counts of texts that are split already, one row per text."""
    starts = [0]
    buckets: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
    counts: list[NDArray[np.float32]] = [np.empty(0, np.float32)]
    for found in texts:
        codes = np.array([crc32(w.encode("utf-8", "surrogatepass")) for w in found], np.uint64)
        hashes, times = np.unique(_hashes(codes, config), return_counts=True)
        buckets.append(hashes.astype(np.int32))
        counts.append(times.astype(np.float32))
        starts.append(starts[-1] + len(hashes))
    return Counts(np.array(starts), np.concatenate(buckets), np.concatenate(counts))


@dataclass(frozen=True, slots=True)
class NgramWeights:
    """A linear model over weighted counts of hashed n-grams.

    ``idf`` [buckets] says how much a bucket counts: its inverse document frequency, times what
    training found it to tell; 0 drops it. ``coefficients`` [buckets] say which way. Term
    frequencies are ``1 + ln(count)``, rows have unit Euclidean norm.
    """

    idf: NDArray[np.float32]
    coefficients: NDArray[np.float32]
    intercept: float

    def __post_init__(self) -> None:
        if self.idf.ndim != 1 or self.idf.shape != self.coefficients.shape:
            raise ValueError(
                "ngram weights: idf and coefficients must be vectors of one length, got "
                f"{self.idf.shape} and {self.coefficients.shape}"
            )
        if not math.isfinite(self.intercept):
            raise ValueError(f"ngram weights: intercept must be finite, got {self.intercept}")

    def predict(self, counts: Counts) -> NDArray[np.float64]:
        """One number per row of ``counts``; the intercept for a row without known words."""
        tfidf = counts.frequencies * self.idf[counts.buckets]
        rows = np.repeat(np.arange(len(counts)), np.diff(counts.starts))
        dot = np.bincount(rows, tfidf * self.coefficients[counts.buckets], len(counts))
        norm = np.sqrt(np.bincount(rows, tfidf * tfidf, len(counts)))
        scores: NDArray[np.float64] = dot / np.where(norm > 0.0, norm, 1.0) + self.intercept
        return scores
