"""The executor's side of a request: its tokens, its sampling and its own random numbers."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from hashlib import blake2b

from engine.sampling import SamplingParams
from engine.token import Token
from engine.usage import Usage


@dataclass(slots=True, eq=False)
class Sequence:
    """Tokens of one generation, prompt first.

    ``usage``: tokens used so far, kept where a penalty falls on them. ``ends``: tokens that end the
    answer. ``prompt_scores``: the prompt's tokens with their log probabilities, by position. Its
    random numbers depend on its seed and on how many tokens it has, on nothing else: what is served
    beside it, being preempted, and guesses that are verified change nothing about them.
    """

    id: str
    prompt_tokens: int
    tokens: list[int]
    sampling: SamplingParams
    usage: Usage | None = field(repr=False)
    ends: tuple[int, ...] = field(repr=False)
    _seed: bytes = field(repr=False)
    prompt_scores: dict[int, Token] = field(default_factory=dict, repr=False)

    @classmethod
    def start(
        cls, id: str, prompt_ids: Seq[int], sampling: SamplingParams, eos: Collection[int] = ()
    ) -> Sequence:
        """A generation that has sampled nothing yet."""
        ends = {*sampling.stop_token_ids, *(() if sampling.ignore_eos else eos)}
        return cls(
            id=id,
            prompt_tokens=len(prompt_ids),
            tokens=list(prompt_ids),
            sampling=sampling,
            usage=Usage(prompt_ids) if sampling.penalised else None,
            ends=tuple(sorted(ends)),
            _seed=secrets.token_bytes(8) if sampling.seed is None else sampling.seed.to_bytes(8),
        )

    def append(self, token: int) -> None:
        self.tokens.append(token)
        if self.usage is not None:
            self.usage.append(token)

    def uniform(self) -> float:
        """The number in [0, 1) that decides the next output token: always the same until one is
        appended."""
        position = self.output_tokens.to_bytes(8)
        digest = blake2b(position, digest_size=8, key=self._seed).digest()
        return (int.from_bytes(digest) >> 11) * 2.0**-53

    @property
    def held_back(self) -> tuple[int, ...]:
        """Tokens that must not be sampled next, because the answer may not end yet."""
        return self.ends if self.output_tokens < self.sampling.min_tokens else ()

    @property
    def scored_prompt(self) -> tuple[Token, ...]:
        """The prompt's tokens; before the first nothing stands that could make it likely."""
        known = self.tokens[: self.prompt_tokens]
        return tuple(self.prompt_scores.get(i, Token(token)) for i, token in enumerate(known))

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - self.prompt_tokens
