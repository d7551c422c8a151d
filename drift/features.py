"""What is known of a request as numbers: the columns whose distributions are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drift.meaning import Meaning
from drift.shift import Baseline, Moved
from ranker.types import Outcome

Floats = NDArray[np.float64]

#: Names of the columns. Length is the answer's; the others are known before there is one.
LENGTH = "output_tokens"
INPUTS = ("prompt_tokens", "score", "novelty")
EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True)
class Columns:
    """Outcomes as arrays, shape [n] each; ``score`` and ``novelty`` are NaN where unscored.
    ``sketches``: of the outcomes that have one, shape [m, axes], by number of axes."""

    tokens: NDArray[np.int64]
    censored: NDArray[np.bool_]
    prompt_tokens: Floats
    score: Floats
    novelty: Floats
    sketches: Mapping[int, Floats]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Columns:
        rows = [
            (
                o.output_tokens,
                o.finish_reason.censored,
                o.prompt_tokens,
                o.forecast.score if o.forecast is not None else np.nan,
                o.forecast.novelty if o.forecast is not None else np.nan,
            )
            for o in outcomes
        ]
        table = np.array(rows, dtype=np.float64).reshape(-1, 5)
        return cls(
            table[:, 0].astype(np.int64),
            table[:, 1].astype(np.bool_),
            prompt_tokens=table[:, 2],
            score=table[:, 3],
            novelty=table[:, 4],
            sketches=_sketches(outcomes),
        )

    def input(self, name: str) -> Floats:
        """The known values of one of ``INPUTS``."""
        column: Floats = getattr(self, name)
        return column[~np.isnan(column)]


def _sketches(outcomes: Sequence[Outcome]) -> dict[int, Floats]:
    found: dict[int, list[tuple[float, ...]]] = {}
    for o in outcomes:
        if o.forecast is not None and o.forecast.sketch:
            found.setdefault(len(o.forecast.sketch), []).append(o.forecast.sketch)
    return {axes: np.array(rows, dtype=np.float64) for axes, rows in found.items()}


@dataclass(frozen=True, slots=True)
class Baselines:
    """Distributions in the reference, by column. ``meaning`` is that of embeddings; None when the
    ranker has none, or when the reference is older than their sketches."""

    length: Baseline
    inputs: dict[str, Baseline]
    meaning: Meaning | None = None

    @classmethod
    def of(cls, columns: Columns) -> Baselines:
        return cls(
            Baseline.of(columns.tokens, columns.censored),
            {name: Baseline.of(columns.input(name)) for name in INPUTS},
            Meaning.of(columns.sketches),
        )

    def moved(self, columns: Columns) -> dict[str, Moved]:
        """How far each column of a window has moved; ``embedding`` only where there is one."""
        moved = {LENGTH: self.length.moved(columns.tokens, columns.censored)}
        moved |= {name: b.moved(columns.input(name)) for name, b in self.inputs.items()}
        if self.meaning is not None:
            moved[EMBEDDING] = self.meaning.moved(columns.sketches)
        return moved
