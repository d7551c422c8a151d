"""Ridge regression on hashed n-grams of more rows than a matrix library likes to copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

from ranker.ngrams import Counts, NgramConfig, NgramWeights, count
from ranker.window import Window

Floats = NDArray[np.float64]
_CHUNK = 16_384  # rows of a block
_LEAST = 2  # prompts that a bucket must occur in: others would be learnt by heart
_TOLERANCE = 1e-3
_STEPS = 200
# Of the relevance: weight of the prior that a bucket tells nothing, and what every bucket keeps.
_PRIOR_ROWS, _FLOOR = 3.0, 0.05


@dataclass(frozen=True, slots=True)
class Words:
    """Dampened term frequencies of prompts, in blocks of rows: float32 values, int32 columns.

    ``kept`` [columns] are the buckets that at least two prompts hold, of ``buckets`` in all;
    ``idf`` [columns] is their smoothed inverse document frequency ``ln((1 + n) / (1 + df)) + 1``.
    Eight bytes an n-gram, about 1 kB for a prompt of a hundred words. The blocks are never copied:
    what weighs rows or columns multiplies vectors instead.
    """

    blocks: tuple[csr_array, ...]
    kept: NDArray[np.int64]
    idf: Floats
    rows: int
    buckets: int

    @classmethod
    def of(cls, prompts: Sequence[str], config: NgramConfig, window: Window) -> Words:
        found = []
        seen = np.zeros(config.buckets, np.int64)
        for start in range(0, len(prompts), _CHUNK):
            counts = count(prompts[start : start + _CHUNK], config, window)
            seen += np.bincount(counts.buckets, minlength=config.buckets)
            found.append(counts)
        kept = np.flatnonzero(seen >= _LEAST)
        column = np.full(config.buckets, -1, np.int32)
        column[kept] = np.arange(len(kept), dtype=np.int32)
        blocks = []
        while found:  # one block at a time exists twice
            blocks.append(_block(found.pop(0), column, len(kept)))
        idf = np.log((1.0 + len(prompts)) / (1.0 + seen[kept])) + 1.0
        return cls(tuple(blocks), kept, idf, len(prompts), config.buckets)

    def _spans(self) -> Iterator[tuple[slice, csr_array]]:
        start = 0
        for block in self.blocks:
            yield slice(start, start + block.shape[0]), block
            start += block.shape[0]

    # Vectors go into products as float32: SciPy would copy the blocks to multiply by float64.

    def times(self, v: Floats) -> Floats:
        """The matrix times ``v`` [columns], [rows]."""
        narrow = v.astype(np.float32)
        return np.concatenate([block @ narrow for block in self.blocks]).astype(np.float64)

    def transposed_times(self, u: Floats) -> Floats:
        """``u`` [rows] times the matrix, [columns]."""
        narrow = u.astype(np.float32)
        total = np.zeros(len(self.kept))
        for span, block in self._spans():
            total += narrow[span] @ block
        return total

    def norms(self, scale: Floats) -> Floats:
        """Euclidean norms of the rows when columns are multiplied by ``scale``, [rows]; 1 for
        an empty one."""
        squares = (scale**2).astype(np.float32)
        norms = np.sqrt(np.concatenate([block.power(2) @ squares for block in self.blocks]))
        return np.where(norms > 0.0, norms, 1.0).astype(np.float64)

    def present(self, u: Floats) -> Floats:
        """Sum of ``u`` [rows] over the rows that a bucket occurs in, [columns]."""
        total = np.zeros(len(self.kept))
        for span, block in self._spans():
            each = np.repeat(u[span], np.diff(block.indptr))
            total += np.bincount(block.indices, each, len(self.kept))
        return total


def _block(counts: Counts, column: NDArray[np.int32], columns: int) -> csr_array:
    places = column[counts.buckets]
    known = places >= 0
    before = np.concatenate(([0], np.cumsum(known)))
    parts = (counts.frequencies[known], places[known], before[counts.starts].astype(np.int32))
    return csr_array(parts, shape=(len(counts), columns))


def relevance(words: Words, targets: Floats, weights: Floats) -> Floats:
    """How surely the mean target of the rows with a bucket differs from the mean of all, [columns].

    ``|sum w (y - mean)| / sqrt(sum w + 3) + .05``: a z-score up to a constant. Columns scaled by
    it are penalised less where they tell more, as the adaptive lasso does (Zou 2006, section 2).
    """
    centred = weights * (targets - np.average(targets, weights=weights))
    sure = np.sqrt(words.present(weights) + _PRIOR_ROWS)
    return np.asarray(np.abs(words.present(centred)) / sure + _FLOOR)


@dataclass(frozen=True, slots=True)
class Fit:
    """``scale`` and ``coefficients`` by column of :class:`Words`, and the intercept."""

    scale: Floats
    coefficients: Floats
    intercept: float

    def predict(self, words: Words) -> Floats:
        """One number per row."""
        along = words.times(self.scale * self.coefficients)
        return along / words.norms(self.scale) + self.intercept

    def weights(self, words: Words) -> NgramWeights:
        """The same by bucket, to serve with."""
        idf, coefficients = np.zeros((2, words.buckets), np.float32)
        idf[words.kept], coefficients[words.kept] = self.scale, self.coefficients
        return NgramWeights(idf, coefficients, self.intercept)


def ridge(
    words: Words,
    targets: Floats,
    weights: Floats,
    *,
    penalty: float,
    power: float,
    start: Fit | None = None,
) -> Fit:
    """The linear model of ``targets`` [rows] that least squares with ``penalty`` finds, by
    conjugate gradients on the normal equations.

    Rows of weight 0 take no part. Columns are scaled by inverse document frequency and by
    ``relevance ** power``, rows then to unit norm. ``start`` is where the search begins.
    """
    scale = words.idf * relevance(words, targets, weights) ** power
    norms = words.norms(scale)
    total = weights.sum()
    mean = float(weights @ targets) / total
    centre = scale * words.transposed_times(weights / norms) / total

    def forward(v: Floats) -> Floats:
        found: Floats = words.times(scale * v) / norms - centre @ v
        return found

    def backward(u: Floats) -> Floats:
        found: Floats = scale * words.transposed_times(u / norms) - centre * u.sum()
        return found

    normal = LinearOperator(
        (len(scale), len(scale)),
        matvec=lambda v: backward(weights * forward(v)) + penalty * v,
        dtype=np.float64,
    )
    right = backward(weights * (targets - mean))
    first = None if start is None else start.coefficients
    found, _ = cg(normal, right, x0=first, rtol=_TOLERANCE, maxiter=_STEPS)
    return Fit(scale, found, mean - float(centre @ found))
