"""Pairs of outcomes whose order in length is known, and how their scores agree with it.

A censored length (a token limit, a client that left) is a lower bound, so a pair counts only when
its order is known: F. E. Harrell et al., JAMA 247 (1982), the rule behind the concordance index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranker.metrics import Partners

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
        """From ``scores`` (higher = longer) and ``tokens``, both of shape [n]; O(n log n).

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
        found = Partners.of(s, y, c)
        told_apart = found.concordant + found.discordant
        return cls(
            signed=(found.concordant - found.discordant).astype(np.float64),
            untied=(told_apart + found.parted).astype(np.float64),
            decided=(told_apart + found.tied).astype(np.float64),
        )
