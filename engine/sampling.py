"""What the caller may ask of the sampler. Standard library only."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to pick tokens and when to stop. The scheduler never sees this.

    ``max_tokens``: at most so many output tokens, ``None`` = up to the context window.
    ``temperature`` 0 is greedy. ``top_k`` 0 keeps all tokens, ``top_p`` is the nucleus mass
    (Holtzman et al. 2020). ``seed``: same seed, same prompt, same tokens whatever else is served
    at the time; ``None`` draws one from the operating system. ``ignore_eos``: run to the limit.
    ``repetition_penalty`` divides (positive) or multiplies (negative) the logits of every token
    of prompt and output (Keskar et al. 2019).

    Raises ``ValueError`` that starts with the field's name.
    """

    max_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    ignore_eos: bool = False
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            _integer("max_tokens", self.max_tokens)
            if self.max_tokens < 1:
                raise ValueError(f"max_tokens must be >= 1, got {self.max_tokens}")
        _number("temperature", self.temperature)
        if not 0.0 <= self.temperature <= 100.0:
            raise ValueError(f"temperature must lie in [0, 100], got {self.temperature}")
        _number("top_p", self.top_p)
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p must lie in (0, 1], got {self.top_p}")
        _integer("top_k", self.top_k)
        if self.top_k < 0:
            raise ValueError(f"top_k must be >= 0 (0 keeps all), got {self.top_k}")
        if self.seed is not None:
            _integer("seed", self.seed)
            if not 0 <= self.seed < 2**64:
                raise ValueError(f"seed must lie in [0, 2**64), got {self.seed}")
        if not isinstance(self.ignore_eos, bool):
            raise ValueError(f"ignore_eos must be true or false, got {self.ignore_eos!r}")
        _number("repetition_penalty", self.repetition_penalty)
        if not 0.01 <= self.repetition_penalty <= 100.0:
            raise ValueError(
                f"repetition_penalty must lie in [0.01, 100], got {self.repetition_penalty}"
            )

    @property
    def greedy(self) -> bool:
        """Also so close to temperature 0 that float32 can't tell."""
        return self.temperature < 1e-6


def _integer(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be an integer, got {type(value).__name__}")


def _number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, got {type(value).__name__}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")
