"""Several pools laid end to end: usual traffic first, then what it turns into."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drift.detectors.sample import Sample
from ranker.types import FinishReason, Forecast, Outcome
from serving.drift_bench.pool import Pool, joined

Index = NDArray[np.intp]

#: What the served model of the benchmark is called, and its ranker.
MODEL = "benchmark"


@dataclass(frozen=True)
class Deck:
    """``usual``: how many rows are usual traffic; the rest is what it turns into."""

    pool: Pool = field(repr=False)
    usual: int

    @classmethod
    def of(cls, usual: Pool, *others: Pool) -> Deck:
        return cls(joined([usual, *others]), len(usual))

    @cached_property
    def sample(self) -> Sample:
        """All rows as detectors see them."""
        return self.pool.sample()

    @cached_property
    def forecasts(self) -> tuple[Forecast, ...]:
        return tuple(
            Forecast(score, tuple(quantiles), MODEL, "1")
            for score, quantiles in zip(
                self.pool.scores.tolist(), self.pool.quantiles.tolist(), strict=True
            )
        )

    def before(self, count: int, rng: np.random.Generator) -> Index:
        """Rows of usual traffic, drawn one by one."""
        return rng.integers(0, self.usual, count)

    def after(self, count: int, rng: np.random.Generator) -> Index:
        """Rows of what it turned into; usual ones when there is nothing else."""
        low = self.usual if self.usual < len(self.pool) else 0
        return rng.integers(low, len(self.pool), count)

    def change(self, before: int, after: int, rng: np.random.Generator) -> Index:
        """``before`` rows of usual traffic, then ``after`` of what it turned into."""
        return np.concatenate([self.before(before, rng), self.after(after, rng)])

    def outcomes(self, rows: Index, every_s: float = 1.0, start: float = 0.0) -> list[Outcome]:
        """Rows as outcomes that arrive ``every_s`` seconds apart."""
        pool = self.pool
        return [
            Outcome(
                request_id=str(number),
                served_model=MODEL,
                output_tokens=int(pool.tokens[row]),
                finish_reason=FinishReason.LENGTH if pool.censored[row] else FinishReason.STOP,
                arrival=start + number * every_s,
                finished=start + number * every_s,
                prompt_tokens=int(pool.prompt_tokens[row]),
                forecast=self.forecasts[row],
            )
            for number, row in enumerate(rows.tolist())
        ]
