"""Several answers of one model to one prompt, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.sources import Example

#: Draws of a prompt that are looked at, the first ones: a log may hold "hi" ten thousand times, and
#: every draw is a column, which is compared with every other.
MOST_DRAWS = 8


@dataclass(frozen=True, slots=True)
class Draws:
    """``tokens`` [prompts, draws], NaN where a prompt has fewer, ``censored`` the same shape;
    ``first`` [prompts] is the row of each prompt's first draw. At most ``MOST_DRAWS`` each."""

    first: NDArray[np.int64]
    tokens: NDArray[np.float64]
    censored: NDArray[np.bool_]

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Draws:
        """Draws in the order of the rows; a prompt is what one model was asked."""
        rows: dict[tuple[str, str], list[int]] = {}
        for i, e in enumerate(examples):
            drawn = rows.setdefault((e.model, e.prompt), [])
            if len(drawn) < MOST_DRAWS:
                drawn.append(i)
        most = max(map(len, rows.values()), default=0)
        tokens = np.full((len(rows), most), np.nan)
        censored = np.zeros((len(rows), most), np.bool_)
        for p, drawn in enumerate(rows.values()):
            tokens[p, : len(drawn)] = [examples[i].output_tokens for i in drawn]
            censored[p, : len(drawn)] = [examples[i].finish_reason.censored for i in drawn]
        return cls(np.array([drawn[0] for drawn in rows.values()], np.int64), tokens, censored)

    @property
    def several(self) -> NDArray[np.bool_]:
        """[prompts], those with two draws or more."""
        several: NDArray[np.bool_] = np.count_nonzero(~np.isnan(self.tokens), axis=1) > 1
        return several


def prompt_numbers(examples: Sequence[Example]) -> NDArray[np.int64]:
    """Which prompt each row is of, numbered from 0, [rows]; equal for all models and draws."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(e.prompt, len(numbers)) for e in examples], np.int64)
