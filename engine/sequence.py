"""The executor's side of a request: its tokens, its sampling and its own random numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from engine.sampling import SamplingParams


@dataclass(slots=True, eq=False)
class Sequence:
    """Tokens of one generation, prompt first.

    ``uniform()`` gives one number in [0, 1) per sampled token, from a generator of its own: what
    is served beside it, and being preempted, changes nothing about what a request draws.
    """

    id: str
    prompt_tokens: int
    tokens: list[int]
    sampling: SamplingParams
    _random: random.Random = field(repr=False)
    _used: set[int] = field(repr=False)

    @classmethod
    def start(cls, id: str, prompt_ids: Seq[int], sampling: SamplingParams) -> Sequence:
        """A generation that has sampled nothing yet."""
        tokens = list(prompt_ids)
        return cls(id, len(tokens), tokens, sampling, random.Random(sampling.seed), set(tokens))

    def append(self, token: int) -> None:
        self.tokens.append(token)
        self._used.add(token)

    def uniform(self) -> float:
        return self._random.random()

    @property
    def used(self) -> set[int]:
        """Distinct tokens of prompt and output; what the repetition penalty falls on."""
        return self._used

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - self.prompt_tokens
