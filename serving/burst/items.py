"""Which prompts a burst sends, when, and how long each answer was in the log."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Item:
    """One prompt of a burst. ``prompt`` stays out of ``repr`` so that no log can show it."""

    id: str
    prompt: str = field(repr=False)
    output_tokens: int
    at: float  #: seconds after the burst's start


@dataclass(frozen=True, slots=True)
class BurstConfig:
    """The shape of a burst.

    ``spread_s``: all requests arrive within this many seconds, uniformly at random. ``max_tokens``
    and ``max_prompt_chars`` keep a demonstration on two cores inside its time: longer answers and
    prompts are left out of the draw, not cut.
    """

    requests: int = 96
    spread_s: float = 1.0
    max_tokens: int = 1024
    max_prompt_chars: int = 1200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.requests < 2:
            raise ValueError(f"requests must be at least 2, got {self.requests}")
        if self.spread_s < 0:
            raise ValueError(f"spread_s must be >= 0 seconds, got {self.spread_s}")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")


def draw(rows: Sequence[tuple[str, str, int]], config: BurstConfig) -> list[Item]:
    """Draw a burst from ``(id, prompt, output tokens)`` rows, in order of arrival.

    Raises ``ValueError`` when fewer rows than requests fit the limits.
    """
    fit = [
        row
        for row in rows
        if 1 <= row[2] <= config.max_tokens and len(row[1]) <= config.max_prompt_chars
    ]
    if len(fit) < config.requests:
        raise ValueError(
            f"requests: only {len(fit)} rows have a prompt of at most {config.max_prompt_chars} "
            f"characters and an answer of at most {config.max_tokens} tokens; ask for fewer"
        )
    rng = random.Random(config.seed)
    chosen = rng.sample(fit, config.requests)
    times = sorted(rng.uniform(0.0, config.spread_s) for _ in chosen)
    return [
        Item(id=row[0], prompt=row[1], output_tokens=row[2], at=at)
        for row, at in zip(chosen, times, strict=True)
    ]
