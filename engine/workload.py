"""Lengths of requests, and requests put together from arrivals, lengths and forecasts.

What goes in is drawn in :mod:`engine.arrivals` and :mod:`engine.forecasts`, whose names are here
too, or read: :mod:`engine.length_files`, :mod:`engine.trace_files`, :mod:`engine.sessions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.arrivals import Floats, burst, ramp, renewal, waves
from engine.core.costs import CostModel
from engine.core.request import Request
from engine.forecasts import Ints, calibrated, flat, noisy_scores, overconfident, truth
from ranker.types import Forecast

__all__ = [
    "Floats",
    "Ints",
    "Lengths",
    "burst",
    "calibrated",
    "flat",
    "noisy_scores",
    "overconfident",
    "ramp",
    "renewal",
    "requests",
    "truth",
    "waves",
]


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """Prompt and output tokens of requests that happened, row by row: int64 arrays of one size.

    Raises ``ValueError`` when empty, of unequal size, or with a length below 1.
    """

    prompt_tokens: Ints
    output_tokens: Ints

    def __post_init__(self) -> None:
        if len(self.prompt_tokens) != len(self.output_tokens) or not len(self.prompt_tokens):
            raise ValueError("prompt_tokens and output_tokens must be of one size, above 0")
        if self.prompt_tokens.min() < 1 or self.output_tokens.min() < 1:
            raise ValueError("prompt_tokens and output_tokens must be at least 1 in each row")

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    def take(self, index: NDArray[np.integer]) -> Lengths:
        return Lengths(self.prompt_tokens[index], self.output_tokens[index])

    def work(self, cost: CostModel, batch: float) -> Floats:
        """Seconds of the engine that each takes in steps of ``batch`` requests."""
        prompts, outputs = self.prompt_tokens.tolist(), self.output_tokens.tolist()
        return np.array(
            [cost.work(p, o, batch) for p, o in zip(prompts, outputs, strict=True)],
            dtype=np.float64,
        )

    def rate_at(self, utilisation: float, cost: CostModel, batch: float) -> float:
        """Requests per second that keep an engine of ``batch`` slots busy for that share."""
        return utilisation / float(self.work(cost, batch).mean())


def requests(
    arrivals: Floats,
    lengths: Lengths,
    forecasts: Sequence[Forecast] | None = None,
    *,
    tenants: Sequence[str] | None = None,
    lane: str = "",
    prefix: str = "",
) -> list[Request]:
    """Put them together, row by row; ids are row numbers behind ``prefix``."""
    columns = (arrivals, forecasts, tenants)
    if any(column is not None and len(column) != len(lengths) for column in columns):
        raise ValueError("arrivals, lengths, forecasts and tenants must be of one size")
    return [
        Request(
            id=f"{prefix}{row}",
            arrival=float(arrivals[row]),
            prompt_tokens=int(lengths.prompt_tokens[row]),
            forecast=None if forecasts is None else forecasts[row],
            true_tokens=int(lengths.output_tokens[row]),
            tenant="" if tenants is None else tenants[row],
            lane=lane,
        )
        for row in range(len(lengths))
    ]
