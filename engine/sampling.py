"""What the caller may ask of the sampler. Standard library only."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Bounds on what one request may ask for: a stop string is looked for at every token, and each
#: log probability is sent.
MAX_STOPS = 32
MAX_STOP_CHARS = 256
MAX_STOP_IDS = 256
MAX_LOGPROBS = 20
MAX_BIASES = 1024


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to pick tokens and when to stop. The scheduler never sees this.

    The logits of a step go through, in this order: ``logit_bias`` (added, by token), ``min_tokens``
    (tokens that would end the answer are out until it has so many), ``repetition_penalty`` (divides
    positive and multiplies negative logits of every token of prompt and output; Keskar et al.
    2019), ``frequency_penalty`` (times a token's count in the output) and ``presence_penalty``
    (once for each token in the output), both subtracted, as OpenAI defines them; ``temperature``
    (0 is greedy), ``min_p`` (tokens at least that likely against the likeliest; Nguyen et al.
    2024), ``top_k`` (0 keeps all; ties go to the lower id) and ``top_p`` (the smallest set of the
    likeliest with that mass of what is left; Holtzman et al. 2020). vLLM has the same order.

    ``seed``: same seed, same prompt, same tokens whatever else is served at the time; ``None``
    draws one from the operating system.

    The answer ends at ``max_tokens`` (``None`` = up to the context window), at an end-of-sequence
    token unless ``ignore_eos``, at one of ``stop_token_ids``, or where one of the texts in ``stop``
    appears behind the first ``min_tokens``; that text is cut off unless
    ``include_stop_str_in_output``. ``skip_special_tokens``: special tokens show no text.

    ``logprobs``: report each token's log probability and those of so many likeliest, of the model's
    own distribution: of the raw logits, before anything above. ``prompt_logprobs``: the same for
    the prompt's tokens, which are then all computed, whatever the prefix cache holds.

    Raises ``ValueError`` that starts with the field's name.
    """

    max_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    ignore_eos: bool = False
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    min_p: float = 0.0
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            _integer("max_tokens", self.max_tokens, 1)
        _number("temperature", self.temperature, 0.0, 100.0)
        _number("top_p", self.top_p, 0.0, 1.0)
        if self.top_p == 0.0:
            raise ValueError("top_p must lie in (0, 1], got 0")
        _integer("top_k", self.top_k, 0)
        if self.seed is not None:
            _integer("seed", self.seed, 0, 2**64 - 1)
        _flag("ignore_eos", self.ignore_eos)
        _number("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        _number("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _number("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _number("min_p", self.min_p, 0.0, 1.0)
        _integer("min_tokens", self.min_tokens, 0)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens must be at most max_tokens, got {self.min_tokens} and "
                f"{self.max_tokens}"
            )
        self._check_stops()
        _flag("include_stop_str_in_output", self.include_stop_str_in_output)
        _flag("skip_special_tokens", self.skip_special_tokens)
        for name, count in (("logprobs", self.logprobs), ("prompt_logprobs", self.prompt_logprobs)):
            if count is not None:
                _integer(name, count, 0, MAX_LOGPROBS)
        _at_most("logit_bias", self.logit_bias, MAX_BIASES)
        for token, bias in self.logit_bias:
            _integer("logit_bias", token, 0)
            _number("logit_bias", bias, -100.0, 100.0)

    def _check_stops(self) -> None:
        _at_most("stop", self.stop, MAX_STOPS)
        for text in self.stop:
            if not isinstance(text, str) or not 1 <= len(text) <= MAX_STOP_CHARS:
                raise ValueError(
                    f"stop must hold texts of 1 to {MAX_STOP_CHARS} characters; one is not"
                )
        _at_most("stop_token_ids", self.stop_token_ids, MAX_STOP_IDS)
        for token in self.stop_token_ids:
            _integer("stop_token_ids", token, 0)

    def check_vocabulary(self, size: int) -> None:
        """Raise ``ValueError`` when a token is named that the model does not have."""
        for name, ids in (
            ("stop_token_ids", self.stop_token_ids),
            ("logit_bias", [token for token, _ in self.logit_bias]),
        ):
            if any(token >= size for token in ids):
                raise ValueError(f"{name} must hold tokens of the vocabulary, which has {size}")

    @property
    def greedy(self) -> bool:
        """Also so close to temperature 0 that float32 can't tell."""
        return self.temperature < 1e-6

    @property
    def penalised(self) -> bool:
        """Whether tokens that were used count."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1, 0, 0)


def _at_most(name: str, value: object, most: int) -> None:
    if not isinstance(value, tuple) or len(value) > most:
        raise ValueError(f"{name} must hold at most {most} entries")


def _flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}")


def _integer(name: str, value: object, least: int, most: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be an integer, got {type(value).__name__}")
    if value < least or (most is not None and value > most):
        bound = f">= {least}" if most is None else f"in [{least}, {most}]"
        raise ValueError(f"{name} must be {bound}, got {value}")


def _number(name: str, value: object, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, got {type(value).__name__}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")
    if not least <= value <= most:
        raise ValueError(f"{name} must lie in [{least:g}, {most:g}], got {value}")
