"""The words every part of shortfirst shares. Standard library only."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Protocol

#: Levels at which a bundled ranker states its forecast. Denser at the top, where queues are lost.
LEVELS: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)

#: Novelty from which a prompt is called unlike the training traffic.
NOVEL = 0.95

#: Most numbers in a forecast's sketch, and the largest that 32 bits hold.
MOST_SKETCH = 64
_FLOAT32 = (2.0 - 2.0**-23) * 2.0**127


def check_levels(levels: Sequence[float], where: str) -> None:
    """Raises ``ValueError`` naming ``where`` unless ``levels`` ascend strictly inside (0, 1)."""
    inside = all(0.0 < p < 1.0 for p in levels)
    if not levels or not inside or any(a >= b for a, b in pairwise(levels)):
        raise ValueError(f"{where} must ascend strictly inside (0, 1)")


class FinishReason(StrEnum):
    """Why a generation ended. ``LENGTH`` and ``ABORT`` are censored: lower bounds, not lengths."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"

    @property
    def censored(self) -> bool:
        return self is not FinishReason.STOP


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a ranker says of one prompt for one served model.

    ``score`` is ordinal, higher = longer. ``quantiles[i]`` is the number of output tokens that the
    answer stays below with probability ``levels[i]``. ``novelty`` is the share of traffic like the
    training data that is less strange to the ranker than this prompt; 0 when it does not tell.
    ``trust`` is how much say a scheduler should leave to this forecast, by what came true of others
    lately: 1 all of it, 0 none, which is order by arrival. The score stays the ranker's own.
    ``sketch`` is where the prompt lies among others by meaning, in the few numbers of 32 bits of
    :mod:`ranker.sketch`; empty when the ranker has no embedding.

    Raises ``ValueError`` when a number is not finite, the levels do not ascend inside (0, 1), the
    quantiles descend or are negative, the two differ in length, ``novelty`` or ``trust`` lies
    outside [0, 1], or ``sketch`` has more than ``MOST_SKETCH`` numbers or one beyond 32 bits.
    """

    score: float
    quantiles: tuple[float, ...]
    ranker: str
    version: str
    levels: tuple[float, ...] = LEVELS
    novelty: float = 0.0
    trust: float = 1.0
    sketch: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 0.0 <= self.novelty <= 1.0:
            raise ValueError(f"forecast.novelty must lie between 0 and 1, got {self.novelty}")
        if not 0.0 <= self.trust <= 1.0:
            raise ValueError(f"forecast.trust must lie between 0 and 1, got {self.trust}")
        if not math.isfinite(self.score):
            raise ValueError(f"forecast.score must be finite, got {self.score}")
        check_levels(self.levels, "forecast.levels")
        if len(self.quantiles) != len(self.levels):
            raise ValueError(
                f"forecast.quantiles must have one value per level: "
                f"{len(self.quantiles)} quantiles, {len(self.levels)} levels"
            )
        if any(not math.isfinite(q) or q < 0.0 for q in self.quantiles) or any(
            a > b for a, b in pairwise(self.quantiles)
        ):
            raise ValueError("forecast.quantiles must be finite, non-negative and not descend")
        if len(self.sketch) > MOST_SKETCH:
            raise ValueError(
                f"forecast.sketch must have at most {MOST_SKETCH} numbers, got {len(self.sketch)}"
            )
        if not all(abs(x) <= _FLOAT32 for x in self.sketch):
            raise ValueError("forecast.sketch must hold finite numbers of 32 bits")

    def quantile(self, p: float) -> float:
        """Output tokens at probability ``p``, linear between levels, flat outside them."""
        i = bisect_left(self.levels, p)
        if i == 0:
            return self.quantiles[0]
        if i == len(self.levels):
            return self.quantiles[-1]
        low, high = self.levels[i - 1], self.levels[i]
        share = (p - low) / (high - low)
        return self.quantiles[i - 1] + share * (self.quantiles[i] - self.quantiles[i - 1])

    @property
    def novel(self) -> bool:
        """Whether the prompt is unlike the training traffic: distrust the order, not only the
        numbers."""
        return self.novelty >= NOVEL

    @property
    def median(self) -> float:
        return self.quantile(0.5)

    def cells(self) -> tuple[tuple[float, float], ...]:
        """The distribution as ``(probability, output tokens)`` cells whose masses add up to 1.

        Each level carries the mass half-way to its neighbours, the ends the mass outside.
        """
        edges = [0.0]
        edges += [(a + b) / 2 for a, b in zip(self.levels, self.levels[1:], strict=False)]
        edges.append(1.0)
        masses = (b - a for a, b in pairwise(edges))
        return tuple(zip(masses, self.quantiles, strict=True))

    @property
    def mean(self) -> float:
        """Expected output tokens under :meth:`cells`."""
        return sum(mass * tokens for mass, tokens in self.cells())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened to one request. Times are Unix seconds; no prompt text, ever.

    ``forecast`` is what was known *at arrival*, with the ranker's version at that time; ``None``
    means that the request was scheduled unscored.
    """

    request_id: str
    served_model: str
    output_tokens: int
    finish_reason: FinishReason
    arrival: float
    finished: float
    prompt_tokens: int = 0
    forecast: Forecast | None = None
    tenant: str = ""
    lane: str = ""

    def __post_init__(self) -> None:
        if not self.request_id:
            raise ValueError("outcome.request_id must not be empty")
        if self.output_tokens < 0:
            raise ValueError(f"outcome.output_tokens must be >= 0, got {self.output_tokens}")
        if self.prompt_tokens < 0:
            raise ValueError(f"outcome.prompt_tokens must be >= 0, got {self.prompt_tokens}")
        if not (math.isfinite(self.arrival) and math.isfinite(self.finished)):
            raise ValueError("outcome.arrival and outcome.finished must be finite Unix seconds")
        if self.finished < self.arrival:
            raise ValueError("outcome.finished must not lie before outcome.arrival")


class Ranker(Protocol):
    """Prompt -> forecast, for one served model."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def served_model(self) -> str: ...

    def forecast(self, prompts: Sequence[str]) -> list[Forecast]:
        """One forecast per prompt, in order. Pure: same prompts, same forecasts."""
        ...
