"""Scored prompts with realised lengths, to draw streams from. Numbers only, no text."""

from __future__ import annotations

import os
import tempfile
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drift.detectors.observation import log_error, pit
from drift.detectors.sample import Sample
from drift.tau import kendall_tau
from ranker.types import LEVELS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Rows of one kind of traffic: scores [n], quantiles [n, levels], tokens, censored,
    prompt_tokens [n]."""

    scores: Floats
    quantiles: Floats
    tokens: Ints
    censored: Bools
    prompt_tokens: Ints

    def __len__(self) -> int:
        return len(self.scores)

    def part(self, index: NDArray[np.intp]) -> Pool:
        return Pool(*(getattr(self, f.name)[index] for f in fields(self)))

    def served(self, limit: int, scale: float = 1.0) -> Pool:
        """Answers ``scale`` times as long, cut off at ``limit`` tokens."""
        tokens = np.maximum(1, np.rint(self.tokens * scale)).astype(np.int64)
        return Pool(
            self.scores,
            self.quantiles,
            np.minimum(tokens, limit),
            self.censored | (tokens >= limit),
            self.prompt_tokens,
        )

    def sample(self) -> Sample:
        """As detectors see it, in the order of the rows."""
        rows = zip(self.quantiles, self.tokens.tolist(), self.censored.tolist(), strict=True)
        middle = LEVELS.index(0.5)
        return Sample(
            self.scores,
            self.tokens,
            self.censored,
            np.array([pit(q.tolist(), LEVELS, t, c) for q, t, c in rows], np.float64),
            np.array(
                [log_error(q[middle], t) for q, t in zip(self.quantiles, self.tokens, strict=True)],
                np.float64,
            ),
            self.prompt_tokens,
        )

    @property
    def tau(self) -> float:
        return kendall_tau(self.scores, self.tokens, self.censored).value

    def write(self, path: Path) -> None:
        """Whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(prefix=path.name, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez_compressed(file, **{f.name: getattr(self, f.name) for f in fields(self)})
            os.replace(made, path)
        finally:
            Path(made).unlink(missing_ok=True)

    @classmethod
    def read(cls, path: Path) -> Pool | None:
        """``None`` when there is none, or it is damaged and has to be made again."""
        try:
            # A file of ours: numpy leaves one open that it finds damaged by name.
            with path.open("rb") as file, np.load(file) as found:
                return cls(*(found[f.name] for f in fields(cls)))
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return None


def joined(pools: list[Pool]) -> Pool:
    """All rows of ``pools``, one after the other."""
    return Pool(*(np.concatenate([getattr(p, f.name) for p in pools]) for f in fields(Pool)))
