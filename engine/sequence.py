"""The executor's side of a request: its tokens, its sampling and its own random numbers."""

from __future__ import annotations

import secrets
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from hashlib import blake2b

from engine.sampling import SamplingParams


@dataclass(slots=True, eq=False)
class Sequence:
    """Tokens of one generation, prompt first.

    Its random numbers depend on its seed and on how many tokens it has, on nothing else: what is
    served beside it, being preempted, and guesses that are verified change nothing about them.
    """

    id: str
    prompt_tokens: int
    tokens: list[int]
    sampling: SamplingParams
    _seed: bytes = field(repr=False)
    _used: set[int] = field(repr=False)

    @classmethod
    def start(cls, id: str, prompt_ids: Seq[int], sampling: SamplingParams) -> Sequence:
        """A generation that has sampled nothing yet."""
        tokens = list(prompt_ids)
        seed = secrets.token_bytes(8) if sampling.seed is None else sampling.seed.to_bytes(8)
        return cls(id, len(tokens), tokens, sampling, seed, set(tokens))

    def append(self, token: int) -> None:
        self.tokens.append(token)
        self._used.add(token)

    def uniform(self) -> float:
        """The number in [0, 1) that decides the next output token: always the same until one is
        appended."""
        position = self.output_tokens.to_bytes(8)
        digest = blake2b(position, digest_size=8, key=self._seed).digest()
        return (int.from_bytes(digest) >> 11) * 2.0**-53

    @property
    def used(self) -> set[int]:
        """Distinct tokens of prompt and output; what the repetition penalty falls on."""
        return self._used

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - self.prompt_tokens
