"""What is sent: prompts of a workload, the same to both servers, new in each repetition."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from serving.peers.client import Ask


@dataclass(frozen=True, slots=True)
class Workload:
    """So many clients that each send one request after the other.

    ``prefill``: one token is asked for, and the prompt's tokens are what is counted.
    """

    concurrency: int
    requests: int
    output_tokens: int
    prefill: bool = False

    @property
    def name(self) -> str:
        return f"prefill, {self.concurrency} at once" if self.prefill else f"{self.concurrency}"


@dataclass(frozen=True, slots=True)
class WorkConfig:
    """The measured workloads.

    concurrency: requests in flight, one workload each. rounds: requests of each client.
    output_tokens: of each request. prompt_tokens: of random prompts. prefill_tokens and
    prefill_requests: of the workload that measures prefill alone, with one in flight.
    """

    concurrency: tuple[int, ...] = (1, 4, 16, 32)
    rounds: int = 2
    output_tokens: int = 128
    prompt_tokens: int = 128
    prefill_tokens: int = 1024
    prefill_requests: int = 6
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.concurrency or min(self.concurrency) < 1:
            raise ValueError(f"concurrency must name counts of 1 or more, got {self.concurrency}")
        for name in ("rounds", "prompt_tokens", "prefill_tokens", "prefill_requests"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.output_tokens < 2:
            raise ValueError(f"output_tokens must be at least 2, got {self.output_tokens}")

    def workloads(self) -> list[Workload]:
        served = [Workload(c, c * self.rounds, self.output_tokens) for c in self.concurrency]
        return [*served, Workload(1, self.prefill_requests, 1, prefill=True)]


#: Text of tokens.
Decode = Callable[[Sequence[int]], str]


class Prompts:
    """Draws prompts; the same for the same workload, repetition and seed.

    ``texts``: real prompts to draw from; without them, tokens are drawn at random below
    ``vocabulary`` and written out with ``decode`` (their count can change a little when they are
    read again, alike for both). Prompts that measure prefill are always random, to have one length.
    """

    def __init__(
        self, config: WorkConfig, decode: Decode, vocabulary: int, texts: Sequence[str] = ()
    ) -> None:
        self._config = config
        self._decode = decode
        self._vocabulary = vocabulary
        self._texts = texts

    def draw(self, workload: Workload, repetition: int) -> list[Ask]:
        config = self._config
        rng = random.Random(f"{config.seed}/{workload.concurrency}/{workload.prefill}/{repetition}")
        if self._texts and not workload.prefill:
            texts = rng.choices(self._texts, k=workload.requests)
        else:
            size = config.prefill_tokens if workload.prefill else config.prompt_tokens
            texts = [self._random(rng, size) for _ in range(workload.requests)]
        return [Ask(text, workload.output_tokens) for text in texts]

    def _random(self, rng: random.Random, size: int) -> str:
        # The first hundreds are special tokens and single bytes: half a character is no text.
        lowest = min(1000, self._vocabulary // 2)
        return self._decode([rng.randrange(lowest, self._vocabulary) for _ in range(size)])


def real_prompts(rows: Sequence[tuple[str, int]], shortest: int, longest: int) -> list[str]:
    """Of ``(prompt, its tokens)``, those of ``shortest`` to ``longest`` tokens.

    Raises ``ValueError`` when there are none.
    """
    found = [text for text, tokens in rows if shortest <= tokens <= longest]
    if not found:
        raise ValueError(f"no prompt has {shortest} to {longest} tokens; use --prompts random")
    return found
