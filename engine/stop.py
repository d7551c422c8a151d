"""When a generation ends, as far as its tokens say."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.sampling import SamplingParams
from ranker.types import FinishReason


@dataclass(frozen=True, slots=True)
class StopRule:
    """``eos``: tokens that end an answer. ``window``: tokens that fit in the model's context."""

    eos: Collection[int]
    window: int

    def limit(self, prompt_tokens: int, max_tokens: int | None) -> int:
        """Output tokens that ``max_tokens`` and the context window allow together."""
        room = self.window - prompt_tokens
        return room if max_tokens is None else min(max_tokens, room)

    def ends(self, token: int, sampling: SamplingParams) -> bool:
        """Whether ``token`` is an end-of-sequence token that counts."""
        return token in self.eos and not sampling.ignore_eos

    def check(
        self, token: int, output_tokens: int, prompt_tokens: int, sampling: SamplingParams
    ) -> FinishReason | None:
        """Whether ``token``, the newest of ``output_tokens``, ends the generation, and why."""
        if self.ends(token, sampling) or token in sampling.stop_token_ids:
            return FinishReason.STOP
        if output_tokens >= self.limit(prompt_tokens, sampling.max_tokens):
            return FinishReason.LENGTH
        return None
